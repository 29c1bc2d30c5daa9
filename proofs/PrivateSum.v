(* The private sum: from the bounds for fixed differences to differential privacy.

   Every user adds its noise to its value before sharing. M is the mechanism; in M_i user i carries all of
   the noise. For the same noise the two share inputs that have one sum and differ on a set A only: user i
   and the users whose noise is not zero. The noise z has any law on the group, with weights in any
   ordered field; a law on the integers has one modulo q. All that is asked of it is nu, the law of the
   total: nu t <= e nu (t - d), where d is the change of user i's value and e stands for exp(epsilon_0).

   private_sum: with a clear share, for 0 < c and 0 < th < 1 and any event T,
   M[T] <= (1+c)^2 e M'[T] + eta (1 + (1+c) e),
   eta = D / (2 c th) + c xi / (4 (1-th)), where D is the average of Delta_A = E[q^(C-1); A is split]
   over the noise, and xi = E[q^(C-1)] - 1.
   private_sum_variation, private_sum_variation_no_clear: the same for c = 0, with and without a clear
   share, and eta = t + D / (8 t) for any t > 0; at t = sqrt(D/8) that is sqrt(D/2).

   average_split: if users' noises are independent with one law, under which a user is spared with
   probability sp, then D = sum_{s<n} w(n,s) e_{n-s} (1 - sp^(n-s)), with a clear share. *)
From Coq Require Import Arith.
Lemma product_nat1 (a b c d e f : nat) : a * b * (c * d * (e * f)) = a * (e * c) * d * (b * f).
Proof. ring. Qed.
Lemma product_nat2 (a b c d e f : nat) : a * (b * (c * (d * e))) * f = a * c * (d * e * (f * b)).
Proof. ring. Qed.
From mathcomp Require Import all_ssreflect all_fingroup all_algebra.
From Ikos Require Import Graph Shuffle HockeyStick NoClear Colour Recursion Split Instances SplitValue.
Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.
Import Order.TTheory GRing.Theory Num.Theory GroupScope.
Local Open Scope ring_scope.

Section Chain.
(* pr is the probability of one event given the shared values, B the loss for a difference on A. *)
Variables (F : realFieldType) (U Omega : finType) (G : finZmodType).
Implicit Types (x y : {ffun U -> G}) (o : Omega).
Variables (pr : {ffun U -> G} -> F) (B : {set U} -> F) (c : F).
Hypothesis pr_ge0 : forall x, 0 <= pr x.
Hypothesis c_ge0 : 0 <= c.
Hypothesis close : forall (A : {set U}) x x', \sum_u x u = \sum_u x' u ->
  (forall u, u \notin A -> x u = x' u) -> pr x <= (1 + c) * pr x' + B A.

(* The noise, its law, and a set outside of which it is zero. *)
Variables (w : Omega -> F) (z : Omega -> {ffun U -> G}) (A : Omega -> {set U}) (i : U).
Hypothesis w_ge0 : forall o, 0 <= w o.
Hypothesis iA : forall o, i \in A o.
Hypothesis zA : forall o u, u \notin A o -> z o u = 0.

Definition ztotal o : G := \sum_u z o u.
Definition at_i (t : G) : {ffun U -> G} := [ffun u => if u == i then t else 0].
Definition mechanism x : F := \sum_o w o * pr (x + z o).
Definition central x : F := \sum_o w o * pr (x + at_i (ztotal o)).
Definition nu (t : G) : F := \sum_(o | ztotal o == t) w o.
Definition loss : F := \sum_o w o * B (A o).

Lemma sum_at_i t : \sum_u at_i t u = t.
Proof.
rewrite (bigD1 i) //= ffunE eqxx big1 ?addr0 // => u /negPf h.
by rewrite ffunE h.
Qed.

Lemma same_total x o : \sum_u (x + z o) u = \sum_u (x + at_i (ztotal o)) u.
Proof.
have e y : \sum_u (x + y : {ffun U -> G}) u = \sum_u x u + \sum_u y u.
  by rewrite -big_split; apply: eq_bigr => u _; rewrite ffunE.
by rewrite !e sum_at_i.
Qed.

Lemma same_off x o u : u \notin A o -> (x + z o) u = (x + at_i (ztotal o)) u.
Proof.
move=> h; rewrite !ffunE (zA h) ifF //; apply: contraNF h => /eqP ->; exact: iA.
Qed.

Lemma to_central x : mechanism x <= (1 + c) * central x + loss.
Proof.
rewrite /mechanism /central /loss mulr_sumr -big_split; apply: ler_sum => o _ /=.
rewrite mulrCA -mulrDr ler_wpmul2l //; apply: close; first exact: same_total.
by move=> u; apply: same_off.
Qed.

Lemma from_central x : central x <= (1 + c) * mechanism x + loss.
Proof.
rewrite /mechanism /central /loss mulr_sumr -big_split; apply: ler_sum => o _ /=.
rewrite mulrCA -mulrDr ler_wpmul2l //; apply: close; first by rewrite same_total.
by move=> u hu; rewrite same_off.
Qed.

Lemma centralE x : central x = \sum_t nu t * pr (x + at_i t).
Proof.
rewrite /central (partition_big ztotal xpredT) //=; apply: eq_bigr => t _.
by rewrite /nu mulr_suml; apply: eq_bigr => o /eqP ->.
Qed.

Variables (x x' : {ffun U -> G}) (e : F).
Hypothesis e_ge0 : 0 <= e.
Hypothesis hx : forall u, u != i -> x u = x' u.
Hypothesis hnu : forall t, nu t <= e * nu (t - (x' i - x i)).

Lemma central_private : central x <= e * central x'.
Proof.
rewrite !centralE [X in _ <= _ * X](reindex_inj (addIr (- (x' i - x i)))) /=.
rewrite mulr_sumr; apply: ler_sum => t _.
have -> : x' + at_i (t - (x' i - x i)) = x + at_i t.
  apply/ffunP => u; rewrite !ffunE; case: eqP => [->|/eqP /hx -> //].
  by rewrite opprB addrCA [x' i + _]addrC subrK addrC.
by rewrite mulrA ler_wpmul2r.
Qed.

Theorem chain : mechanism x <= (1 + c) ^+ 2 * e * mechanism x' + loss * (1 + (1 + c) * e).
Proof.
have c1 : 0 <= 1 + c by rewrite addr_ge0 ?ler01.
apply: le_trans (to_central x) _.
have h1 : (1 + c) * central x <= (1 + c) * (e * central x') by rewrite ler_wpmul2l ?central_private.
have h2 : (1 + c) * e * central x' <= (1 + c) * e * ((1 + c) * mechanism x' + loss).
  by rewrite ler_wpmul2l ?from_central // mulr_ge0.
apply: (@le_trans _ _ ((1 + c) * e * ((1 + c) * mechanism x' + loss) + loss)).
  by rewrite ler_add2r (le_trans h1) // mulrA.
rewrite mulrDr -addrA [X in _ <= _ + X]mulrDr mulr1 [X in _ <= _ + X]addrC.
by rewrite [loss * _]mulrC [(1 + c) * e * (_ * _)]mulrA [(1 + c) * e * (1 + c)]mulrAC expr2.
Qed.
End Chain.

Section PrivateSum.
Variables (U S : finType) (own : S -> U) (G : finZmodType) (P : {group {perm S}}) (m : nat).
Hypothesis m_gt0 : (0 < m)%N.
Hypothesis own_m : forall i, #|[pred j | own j == i]| = m.
Hypothesis n_gt0 : (0 < #|U|)%N.
Variables (F : realFieldType) (Omega : finType) (w : Omega -> F) (z : Omega -> {ffun U -> G}).
Variables (A : Omega -> {set U}) (i : U) (x x' : {ffun U -> G}) (e : F).
Hypothesis w_ge0 : forall o, 0 <= w o.
Hypothesis w_sum : \sum_o w o = 1.
Hypothesis iA : forall o, i \in A o.
Hypothesis zA : forall o u, u \notin A o -> z o u = 0.
Hypothesis e_ge0 : 0 <= e.
Hypothesis hx : forall u, u != i -> x u = x' u.
Hypothesis hnu : forall t, nu w z t <= e * nu w z (t - (x' i - x i)).
Notation Q := (#|G|%:R : rat).

(* The probability of the event T under the mechanism, and the average of Delta_A. *)
Definition M (y : {ffun U -> G}) T : F := mechanism (fun y => ratr (Pr own P y T)) w z y.
Definition average (D : {set U} -> rat) : F := \sum_o w o * ratr (D (A o)).
Definition Delta (B : {set U}) : rat := mean P (fun p => (split own p B)%:R * Q ^+ (C own p).-1).

Lemma averageD (D : {set U} -> rat) (a b : rat) :
  average (fun B => D B * a + b) = average D * ratr a + ratr b.
Proof.
rewrite /average mulr_suml -[ratr b]mul1r -w_sum mulr_suml -big_split; apply: eq_bigr => o _ /=.
by rewrite rmorphD rmorphM mulrDr mulrA.
Qed.

Lemma Pr_ge0 (y : {ffun U -> G}) T : 0 <= Pr own P y T.
Proof. by rewrite /Pr mulr_ge0 ?invr_ge0 ?ler0n. Qed.

Theorem private_sum T (c th : rat) : 0 < c -> 0 < th -> th < 1 ->
  let eta := average Delta / ratr (2%:R * (c * th)) +
    ratr (c * (mean P (fun p => Q ^+ (C own p).-1) - 1) / (4%:R * (1 - th))) in
  M x T <= (1 + ratr c) ^+ 2 * e * M x' T + eta * (1 + (1 + ratr c) * e).
Proof.
move=> c0 t0 t1 /=.
set k := c * _ / _; set a := (2%:R * (c * th))^-1.
have -> : average Delta / ratr (2%:R * (c * th)) + ratr k = average (fun B => Delta B * a + k).
  by rewrite averageD /a fmorphV.
apply: (@chain F U Omega G _ (fun B => ratr (Delta B * a + k)) (ratr c) _ _ _ w z A i) => //.
- by move=> y; rewrite ler0q Pr_ge0.
- by rewrite ler0q ltW.
move=> B y y' h1 h2; rewrite -(rmorph1 (ratr_rmorphism F)) -rmorphD -rmorphM -rmorphD ler_rat.
rewrite addrA; exact: (hockey_stick P m_gt0 own_m n_gt0 T h1 h2 c0 t0 t1).
Qed.

(* From the square of a difference to the difference, for any t > 0. *)
Lemma from_square (p p' D t : rat) : 0 < t -> (p - p') ^+ 2 <= D / 2%:R ->
  p <= p' + (D * (8%:R * t)^-1 + t).
Proof.
move=> t0 h; have := @tangent t (p - p') t0; rewrite ler_subl_addr ler_subl_addl => h1.
apply: (le_trans h1); rewrite ler_add2l ler_add2r.
have -> : D * (8%:R * t)^-1 = D / 2%:R / (4%:R * t).
  by rewrite -mulrA -invfM mulrA -natrM.
by rewrite ler_wpmul2r ?invr_ge0 ?mulr_ge0 ?ler0n // ltW.
Qed.

Theorem private_sum_variation T (t : rat) : 0 < t ->
  let eta := average Delta / ratr (8%:R * t) + ratr t in
  M x T <= e * M x' T + eta * (1 + e).
Proof.
move=> t0 /=.
have -> : average Delta / ratr (8%:R * t) + ratr t = average (fun B => Delta B * (8%:R * t)^-1 + t).
  by rewrite averageD fmorphV.
have := @chain F U Omega G (fun y => ratr (Pr own P y T))
  (fun B => ratr (Delta B * (8%:R * t)^-1 + t)) 0 _ (lexx 0) _ w z A i w_ge0 iA zA x x' e e_ge0 hx hnu.
rewrite addr0 expr1n !mul1r; apply=> [y|B y y' h1 h2]; first by rewrite ler0q Pr_ge0.
rewrite mul1r -rmorphD ler_rat; apply: from_square => //.
exact: (worst_case_security P m_gt0 own_m n_gt0 T h1 h2).
Qed.

(* Without a clear share, where Delta_A is that of the bipartite graph. *)
Definition M2 (y : {ffun U -> G}) T : F := mechanism (fun y => ratr (Pr2 own P y T)) w z y.
Definition Delta2 (B : {set U}) : rat := mean P (fun p => (split2 own p B)%:R * Q ^+ (C2 own p).-1).

Lemma Pr2_ge0 (y : {ffun U -> G}) T : 0 <= Pr2 own P y T.
Proof. by rewrite /Pr2 mulr_ge0 ?invr_ge0 ?ler0n. Qed.

Theorem private_sum_variation_no_clear T (t : rat) : 0 < t ->
  let eta := average Delta2 / ratr (8%:R * t) + ratr t in
  M2 x T <= e * M2 x' T + eta * (1 + e).
Proof.
move=> t0 /=.
have -> : average Delta2 / ratr (8%:R * t) + ratr t = average (fun B => Delta2 B * (8%:R * t)^-1 + t).
  by rewrite averageD fmorphV.
have := @chain F U Omega G (fun y => ratr (Pr2 own P y T))
  (fun B => ratr (Delta2 B * (8%:R * t)^-1 + t)) 0 _ (lexx 0) _ w z A i w_ge0 iA zA x x' e e_ge0 hx hnu.
rewrite addr0 expr1n !mul1r; apply=> [y|B y y' h1 h2]; first by rewrite ler0q Pr2_ge0.
rewrite mul1r -rmorphD ler_rat; apply: from_square => //.
exact: (worst_case_security_no_clear P m_gt0 own_m n_gt0 T h1 h2).
Qed.
End PrivateSum.

Section Average.
(* Independent noise of every user, of one law w0; z0 is a value of it that stands for no noise. *)
Variables (F : realFieldType) (U Z : finType) (w0 : Z -> F) (z0 : Z) (i : U).
Hypothesis w0_sum : \sum_v w0 v = 1.
Notation n := #|U|.
Notation noises := {ffun U -> Z}.
Implicit Types (o : noises) (B : {set U}).

Definition weights o : F := \prod_u w0 (o u).
Definition noisy o : {set U} := i |: [set u | o u != z0].

Lemma weights_sum : \sum_o weights o = 1.
Proof.
rewrite /weights -(bigA_distr_bigA (fun=> w0)) /=.
by apply: big1 => u _; exact: w0_sum.
Qed.

Lemma prod_indicator (b : U -> bool) : \prod_u (b u)%:R = [forall u, b u]%:R :> F.
Proof.
case: forallP => [h|h]; first by rewrite big1 // => u _; rewrite h.
have /existsP [u hu] : [exists u, ~~ b u].
  by rewrite -negb_forall; apply/negP => /forallP.
by rewrite (bigD1 u) //= (negPf hu) mul0r.
Qed.

(* The users that are not in B are all spared. *)
Lemma spared B : i \in B -> \sum_o weights o * (noisy o \subset B)%:R = w0 z0 ^+ (n - #|B|).
Proof.
move=> hi; transitivity (\sum_(o : noises) \prod_u (w0 (o u) * ((u \in B) || (o u == z0))%:R)).
  apply: eq_bigr => o _; rewrite big_split /= prod_indicator; congr (_ * _%:R); congr nat_of_bool.
  apply/subsetP/forallP => [h u|h u]; last first.
    by rewrite !inE => /orP [/eqP -> //|hu]; have := h u; rewrite (negPf hu) orbF.
  by rewrite -implyNb; apply/implyP => hu; apply: contraR hu => hz; apply: h; rewrite !inE hz orbT.
rewrite -(bigA_distr_bigA (fun u v => w0 v * ((u \in B) || (v == z0))%:R)) (bigID (mem B)) /= big1 ?mul1r => [|u hu]; last first.
  by rewrite -[RHS]w0_sum; apply: eq_bigr => v _; rewrite (hu : u \in B) mulr1.
rewrite (eq_bigr (fun=> w0 z0)) => [|u hu]; last first.
  rewrite (bigD1 z0) //= eqxx orbT mulr1 big1 ?addr0 // => v /negPf hv.
  by rewrite (negPf (hu : u \notin B)) hv mulr0.
rewrite prodr_const; congr (_ ^+ _); rewrite -(cardsC B) addKn.
by apply: eq_card => u; rewrite !inE.
Qed.

Lemma supersets (A : {set U}) s : (s <= n)%N ->
  #|[set B : {set U} | (A \subset B) && (#|B| == s)]| = 'C(n - #|A|, n - s).
Proof.
move=> hs; have e : #|~: A| = (n - #|A|)%N by rewrite -(cardsC A) addKn.
rewrite -e -cards_draws -(card_imset _ (@setC_inj U)); apply: eq_card => B; rewrite inE.
apply/imsetP/andP => [[B']|[h1 /eqP h2]].
  by rewrite inE => /andP [h /eqP <-] ->; rewrite setCS h -(cardsC B') addKn.
exists (~: B); rewrite ?setCK // inE -setCS setCK h1.
by rewrite /= -(eqn_add2l #|B|) cardsC h2 subnK.
Qed.

Lemma noisy0 o : noisy o != set0.
Proof. by apply/set0Pn; exists i; rewrite !inE eqxx. Qed.

Lemma choose_swap a b s : (a <= s)%N -> (s <= b)%N ->
  ('C(b - a, b - s) * 'C(b, a) = 'C(s, a) * 'C(b, s))%N.
Proof.
move=> h1 h2; have z : (0 < s`! * (b - s)`! * (s.+1 * b.+1))%N by rewrite !muln_gt0 !fact_gt0.
apply/eqP; rewrite -(eqn_pmul2r z); apply/eqP.
have e1 := choose_identity h1 h2; have e2 := bin_fact h2; rewrite !factS in e1.
apply: (etrans (product_nat1 _ _ _ _ _ _)); apply: (etrans e1).
rewrite -e2; exact: product_nat2.
Qed.

Lemma together_supersets (A : {set U}) s : A != set0 -> (0 < s <= n)%N ->
  together A s = #|[set B : {set U} | (A \subset B) && (#|B| == s)]|%:R / 'C(n.-1, s.-1)%:R.
Proof.
move=> A0 /andP [s0 sn]; have k0 : (0 < #|A|)%N by rewrite card_gt0.
have kn : (#|A| <= n)%N by apply: max_card.
have n0 : (0 < n)%N by apply: leq_trans s0 sn.
have c1 := choose_neq0 n0 A0; rewrite supersets // /together.
have c2 : 'C(n.-1, s.-1)%:R != 0 :> rat by rewrite pnatr_eq0 -lt0n bin_gt0 -ltnS !prednK.
have [ks|sk] := leqP #|A| s; last first.
  have -> : 'C(s.-1, #|A|.-1) = 0%N by rewrite bin_small // -ltnS !prednK.
  have -> : 'C(n - #|A|, n - s) = 0%N by rewrite bin_small // ltn_sub2l // (leq_trans sk).
  by rewrite !mul0r.
apply: (mulIf c1); rewrite divfK //; apply: (mulIf c2); rewrite mulrAC divfK //.
rewrite -!natrM; congr (_%:R).
have pred a b : (0 < a)%N -> (0 < b)%N -> (a.-1 - b.-1 = a - b)%N by move=> ? ?; rewrite -subSS !prednK.
have := @choose_swap #|A|.-1 n.-1 s.-1; rewrite !pred // => -> //; first by rewrite -ltnS !prednK.
by rewrite -ltnS !prednK.
Qed.

Lemma average_together s : (0 < s <= n)%N ->
  \sum_o weights o * ratr (together (noisy o) s) = w0 z0 ^+ (n - s).
Proof.
move=> hs; have /andP [s0 sn] := hs; have n0 : (0 < n)%N by apply: leq_trans s0 sn.
have c2 : 'C(n.-1, s.-1)%:R != 0 :> F by rewrite pnatr_eq0 -lt0n bin_gt0 -ltnS !prednK.
apply: (mulIf c2); rewrite mulr_suml.
transitivity (\sum_o \sum_(B : {set U} | #|B| == s) weights o * (noisy o \subset B)%:R).
  apply: eq_bigr => o _; rewrite together_supersets ?noisy0 // fmorph_div !rmorph_nat mulrA divfK //.
  rewrite -mulr_sumr; congr (_ * _); rewrite -natr_sum; congr (_%:R).
  by rewrite -sum1_card big_mkcond [RHS]big_mkcond; apply: eq_bigr => B _; rewrite inE andbC; case: (_ == s); case: (_ \subset _).
rewrite exchange_big (bigID (fun B : {set U} => i \in B)) /= [X in _ + X]big1 ?addr0; last first.
  move=> B /andP [_ hB]; apply: big1 => o _.
  have /negPf -> : ~~ (noisy o \subset B); last by rewrite mulr0.
  by apply: contra hB => /subsetP; apply; rewrite !inE eqxx.
rewrite (eq_bigr (fun=> w0 z0 ^+ (n - s))) => [|B /andP [/eqP <- hB]]; last exact: (spared hB).
rewrite sumr_const -mulr_natr; congr (_ * _%:R).
transitivity #|[set B : {set U} | ([set i] \subset B) && (#|B| == s)]|.
  by apply: eq_card => B; rewrite [RHS]inE sub1set andbC.
have le1 : (s.-1 <= n.-1)%N by rewrite -!subn1 leq_sub2r.
rewrite supersets // cards1 subn1 -(bin_sub le1).
by congr 'C(_, _); rewrite -[RHS]subSS !prednK.
Qed.
End Average.

(* The average of Delta_A as the documentation has it, and the private sum with independent noise. *)
Section Independent.
Variables (U S : finType) (own : S -> U) (G : finZmodType) (P : {group {perm S}}) (m : nat).
Hypothesis m_gt0 : (0 < m)%N.
Hypothesis own_m : forall i, #|[pred j | own j == i]| = m.
Hypothesis n_gt0 : (0 < #|U|)%N.
Notation n := #|U|.
Variable W : nat -> nat.
Hypothesis W0 : W 0%N = 1%N.
Hypothesis W_gt0 : forall s, (0 < W s)%N.
Hypothesis hW : forall (Q : finType) (c : {ffun U -> Q}),
  #|preserving own P c| = (\prod_(k : Q) W (class_size c k))%N.
(* f_k, c_k and e_k of "Exact values". *)
Variables (f c e : nat -> rat) (lam : rat).
Hypothesis lam0 : lam != 0.
Hypothesis hf : forall k, f k = weight W k * lam ^+ k.
Hypothesis hc : forall k, (0 < k <= n)%N -> c k = 1 - \sum_(1 <= s < k) w f c k s.
Hypothesis e0 : e 0%N = 1.
Hypothesis he : forall k, (0 < k <= n)%N ->
  e k = #|G|%:R * \sum_(1 <= s < k.+1) w f c k s * e (k - s)%N.
(* Every user's noise: values Z, their law, what they are in the group, one that is no noise. *)
Variables (F : realFieldType) (Z : finType) (w0 : Z -> F) (g : Z -> G) (z0 : Z) (i : U).
Hypothesis w0_ge0 : forall v, 0 <= w0 v.
Hypothesis w0_sum : \sum_v w0 v = 1.
Hypothesis g0 : g z0 = 0.

Definition average_Delta : F := \sum_(1 <= s < n) ratr (w f c n s * e (n - s)%N) * (1 - w0 z0 ^+ (n - s)).

Theorem average_split : average (weights w0) (noisy z0 i) (Delta own G P) = average_Delta.
Proof.
have [q hq] : exists q, #|G| = q.+1 by exists #|G|.-1; rewrite prednK //; apply/card_gt0P; exists 0.
have he' : forall k, (0 < k <= n)%N -> e k = q.+1%:R * \sum_(1 <= s < k.+1) w f c k s * e (k - s)%N.
  by rewrite -hq.
rewrite /average /average_Delta /Delta.
have hD (B : {set U}) : B != set0 -> mean P (fun p => (split own p B)%:R * #|G|%:R ^+ (C own p).-1) =
    \sum_(1 <= s < n) w f c n s * e (n - s)%N * (1 - together B s).
  move=> B0; rewrite hq (split_value n_gt0 W0 W_gt0 hW B0 lam0 hf hc e0 he').
  by apply: eq_bigr => s _; rewrite mulrAC.
transitivity (\sum_o \sum_(1 <= s < n)
    ratr (w f c n s * e (n - s)%N) * (weights w0 o * (1 - ratr (together (noisy z0 i o) s)))).
  apply: eq_bigr => o _; rewrite hD ?noisy0 // rmorph_sum mulr_sumr; apply: eq_bigr => s _.
  by rewrite rmorphM rmorphB rmorph1 mulrCA.
rewrite exchange_big /=; apply: eq_big_nat => s /andP [s1 sn]; rewrite -mulr_sumr; congr (_ * _).
rewrite (eq_bigr (fun o => weights w0 o - weights w0 o * ratr (together (noisy z0 i o) s))).
  by rewrite sumrB weights_sum // average_together // s1 ltnW.
by move=> o _; rewrite mulrBr mulr1.
Qed.

Definition noise_of (o : {ffun U -> Z}) : {ffun U -> G} := [ffun u => g (o u)].
Variables (x x' : {ffun U -> G}) (k : F).
Hypothesis k_ge0 : 0 <= k.
Hypothesis hx : forall u, u != i -> x u = x' u.
Hypothesis hnu : forall t, nu (weights w0) noise_of t <= k * nu (weights w0) noise_of (t - (x' i - x i)).

Theorem private_sum_independent T (d th : rat) : 0 < d -> 0 < th -> th < 1 ->
  let eta := average_Delta / ratr (2%:R * (d * th)) +
    ratr (d * (mean P (fun p => #|G|%:R ^+ (C own p).-1) - 1) / (4%:R * (1 - th))) in
  M own P (weights w0) noise_of x T <=
    (1 + ratr d) ^+ 2 * k * M own P (weights w0) noise_of x' T + eta * (1 + (1 + ratr d) * k).
Proof.
move=> d0 t0 t1.
have h1 (o : {ffun U -> Z}) : 0 <= weights w0 o by apply: prodr_ge0.
have h2 (o : {ffun U -> Z}) : i \in noisy z0 i o by rewrite !inE eqxx.
have h3 (o : {ffun U -> Z}) u : u \notin noisy z0 i o -> noise_of o u = 0.
  by rewrite !inE negb_or negbK ffunE => /andP [_ /eqP ->].
have := private_sum P m_gt0 own_m n_gt0 h1 (weights_sum U w0_sum) h2 h3 k_ge0 hx hnu T d0 t0 t1.
by rewrite average_split.
Qed.
End Independent.
