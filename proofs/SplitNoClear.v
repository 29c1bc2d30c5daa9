(* Without a clear share: E[q^(C-1); the left copies of A are split], by the recursion.

   The bound for a change on A has the right copies split as well, so this is an upper bound of it.
   left_split_sum: for any solution l, a of the recursion with the weights of the bipartite graph it is
   the sum over s < n of l_s a_(n-s) (1 - C(s-1,k-1)/C(n-1,k-1)), over n f_n, as with a clear share.
   average_left_split: so the average of Delta_A for independent noise is at most
   the sum over s < n of l_s a_(n-s) (1 - sp^(n-s)), over n f_n.
   private_sum_independent_no_clear: the private sum with this number. *)
From mathcomp Require Import all_ssreflect all_fingroup all_algebra.
From Ikos Require Import Graph Shuffle HockeyStick NoClear Colour Recursion Split Instances Bipartite.
From Ikos Require Import SplitValue PrivateSum HockeyStickNoClear.
Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.
Import Order.TTheory GRing.Theory Num.Theory GroupScope.
Local Open Scope ring_scope.

Section LeftSplit.
Variables (U S : finType) (own : S -> U) (P : {group {perm S}}) (W : nat -> nat).
Hypothesis n_gt0 : (0 < #|U|)%N.
Hypothesis W0 : W 0%N = 1%N.
Hypothesis hW : forall (Q : finType) (c c' : {ffun U -> Q}), #|matching own P c c'| =
  (if same_sizes c c' then \prod_(k : Q) W (class_size c' k) else 0)%N.
Variable A : {set U}.
Hypothesis A0 : A != set0.
Notation n := #|U|.
Notation k := #|A|.
Notation phi := (weight2 W).
Notation F := (F n phi).
Notation C := (C2 own).
Notation L := (lefts A).
Notation C_A p := #|met (left own) (right own p) L|.
Definition left_split p := splits (left own) (right own p) L.

Lemma lefts0 : L != set0.
Proof. by case/set0Pn: A0 => i hi; apply/set0Pn; exists (inl i); apply: imset_f. Qed.

Lemma sum_left t q :
  \sum_(p in P) (t.+1%:R : rat) ^+ C_A p * (t.+1%:R + q.+1%:R) ^+ (C p - C_A p) =
  (n`!)%:R * \sum_(r < (n - k).+1) 'C(n - k, r)%:R *
    (((n - r)`!)%:R * (F ^+ t.+1)`_(n - r) * ((r`!)%:R * (F ^+ q.+1)`_r)).
Proof.
pose Q := ('I_t.+1 + 'I_q.+1)%type.
pose inA (c : {ffun U -> Q}) := [forall u in A, c u \in first t q].
transitivity (\sum_(c : {ffun U -> Q} | inA c) \sum_(c' : {ffun U -> Q}) #|matching own P c c'|%:R : rat).
  pose inL (c : {ffun U + U -> Q}) := [forall u in L, c u \in first t q].
  transitivity (\sum_(c : {ffun U + U -> Q} | inL c)
      #|[set p in P | [forall j, c (left own j) == c (right own p j)]]|%:R : rat).
    transitivity (\sum_(p in P) \sum_(c : {ffun U + U -> Q} |
        [forall j, c (left own j) == c (right own p j)] && inL c) 1 : rat).
      apply: eq_bigr => p _.
      have c1 : #|first t q| = t.+1.
        rewrite -[RHS]card_ord -(card_imset (mem 'I_t.+1) (@inl_inj _ 'I_q.+1)).
        apply: eq_card => j; rewrite inE; apply/idP/imsetP => [|[i _ ->]] //.
        by case: j => // i _; exists i.
      have c2 : #|{: Q}| = (t.+1 + q.+1)%N by rewrite card_sum !card_ord.
      have := @card_colourings_in _ _ (left own) (right own p) L [finType of Q] (first t q) (k0 t q)
        (_ : k0 t q \in first t q).
      rewrite inE => /(_ isT); rewrite c1 c2 => e.
      rewrite -natrD -!natrX -natrM -e sumr_const; congr (_%:R).
      by apply: eq_card => c; rewrite !inE.
    rewrite (exchange_big_dep inL) /=; last by move=> p c _ /andP [].
    apply: eq_bigr => c hc; rewrite sumr_const; congr (_%:R).
    by apply: eq_card => p; rewrite [RHS]inE unfold_in /= hc andbT.
  pose h (cc : {ffun U -> Q} * {ffun U -> Q}) : {ffun U + U -> Q} :=
    [ffun w => match w with inl i => cc.1 i | inr i => cc.2 i end].
  have hb : bijective h.
    exists (fun c : {ffun U + U -> Q} => ([ffun i : U => c (inl i)], [ffun i : U => c (inr i)])).
      by case=> c c'; congr (_, _); apply/ffunP => i; rewrite !ffunE.
    by move=> c; apply/ffunP => -[i|i]; rewrite !ffunE.
  rewrite (reindex h) /=; last exact: onW_bij.
  rewrite pair_big_dep /=; apply: eq_big => [[c c']|[c c'] _] /=.
    rewrite andbT; apply/forallP/forallP => hc u; apply/implyP => hu.
      by have := hc (inl u); rewrite imset_f //= ffunE.
    by case/imsetP: hu => i hi ->; rewrite ffunE /=; apply: (implyP (hc i)).
  by congr (_%:R); apply: eq_card => p; rewrite !inE; congr (_ && _); apply: eq_forallb => j; rewrite !ffunE.
transitivity ((n`!)%:R * \sum_(c : {ffun U -> Q} | inA c) \prod_j weight W (class_size c j)).
  rewrite mulr_sumr; apply: eq_bigr => c _.
  rewrite /weight prodf_div -!natr_prod -(card_same_sizes c) natrM.
  have e (x y z : rat) : y != 0 -> x * y * (z / y) = x * z by move=> y0; rewrite -mulrA [y * _]mulrC divfK.
  rewrite e; last by rewrite pnatr_eq0 -lt0n prodn_gt0 // => j; rewrite fact_gt0.
  rewrite -natrM -natr_sum; congr (_%:R); rewrite -sum_nat_const [RHS]big_mkcond /=.
  apply: eq_bigr => c' _; rewrite hW inE.
  have -> : same_sizes c' c = same_sizes c c' by apply: eq_forallb => j; rewrite eq_sym.
  case: ifP => // /forallP hs; apply: eq_bigr => j _; by rewrite (eqP (hs j)).
congr (_ * _).
transitivity (\sum_(B : {set U} | A \subset B) Z (k0 t q) (weight W) (lfirst t q) B *
    Z (k0 t q) (weight W) (lsecond t q) (~: B)).
  rewrite (partition_big (@part U t q) (fun B => A \subset B)) /=; last first.
    by move=> c /forallP h; apply/subsetP => i hi; rewrite inE; apply: (implyP (h i)).
  apply: eq_bigr => B hB; rewrite -part_sum; apply: eq_bigl => c.
  case: eqP => [e|]; rewrite ?andbF // andbT; apply/forallP => i; apply/implyP => hi.
  by move: (subsetP hB i hi); rewrite -e inE.
have u1 : uniq (lfirst t q) by rewrite map_inj_uniq ?enum_uniq //; apply: inl_inj.
have u2 : uniq (lsecond t q) by rewrite map_inj_uniq ?enum_uniq //; apply: inr_inj.
pose g s := ((s`!)%:R * (F ^+ t.+1)`_s * (((n - s)`!)%:R * (F ^+ q.+1)`_(n - s))).
transitivity (\sum_(B : {set U} | A \subset B) g #|B|).
  apply: eq_bigr => B _; rewrite (Z_power _ _ u1 (max_card _)) (Z_power _ _ u2 (max_card _)).
  by rewrite !size_map -!enumT !size_enum_ord /g (_ : #|~: B| = (n - #|B|)%N) // -(cardsC B) addKn.
rewrite sum_supersets /g; apply: eq_bigr => r _.
by rewrite subKn //; apply: leq_trans (leq_ord r) (leq_subr _ _).
Qed.

Variables (l a : nat -> rat) (q : nat).
Hypothesis hl : forall k, (0 < k <= n)%N ->
  k%:R * phi k = \sum_(1 <= s < k.+1) l s * phi (k - s)%N.
Hypothesis a0 : a 0%N = 1.
Hypothesis ha : forall k, (0 < k <= n)%N ->
  k%:R * a k = q.+1%:R * \sum_(1 <= s < k.+1) l s * a (k - s)%N.

Lemma left_unsplit :
  \sum_(p in P) (C_A p == 1%N)%:R * q.+1%:R ^+ (C p).-1 =
  (n`!)%:R * \sum_(r < (n - k).+1) 'C(n - k, r)%:R *
    (((n - r)`!)%:R * (l (n - r)%N / (n - r)%:R) * ((r`!)%:R * (F ^+ q.+1)`_r)) :> rat.
Proof.
have phi0 : phi 0%N = 1 by apply: (Recursion.phi0 (law_no_clear n_gt0 W0 hW)).
have [T hT] := power_polynomial phi0 hl (leqnn n).
pose co (r : 'I_(n - k).+1) : rat :=
  'C(n - k, r)%:R * (((n - r)`!)%:R * ((r`!)%:R * (F ^+ q.+1)`_r)).
have e : \sum_(p in P) 'X ^+ C_A p * ('X + (q.+1%:R)%:P) ^+ (C p - C_A p) =
    (n`!)%:R *: \sum_(r < (n - k).+1) co r *: T (n - r)%N.
  apply: poly_eq_nat => t; rewrite hornerZ !horner_sum.
  transitivity (\sum_(p in P) (t.+1%:R : rat) ^+ C_A p * (t.+1%:R + q.+1%:R) ^+ (C p - C_A p)).
    by apply: eq_bigr => p _; rewrite hornerM hornerXn horner_exp hornerD hornerX hornerC.
  rewrite sum_left; congr (_ * _); apply: eq_bigr => r _; have [h1 _ _] := hT (n - r)%N (leq_subr _ _).
  by rewrite hornerZ h1 /co -!mulrA; do 2! congr (_ * _); rewrite mulrC -!mulrA; congr (_ * _); rewrite mulrC.
have := congr1 (fun f : {poly rat} => f`_1) e; rewrite coefZ !coef_sum => e1.
transitivity (\sum_(p in P) ('X ^+ C_A p * ('X + (q.+1%:R)%:P) ^+ (C p - C_A p) : {poly rat})`_1).
  apply: eq_bigr => p _; rewrite coefXnM; have := met_gt0 (left own) (right own p) lefts0.
  case: (C_A p) => // -[|j] _; last by rewrite mul0r.
  by rewrite eqxx mul1r /= subn1 -horner_coef0 horner_exp hornerD hornerX hornerC add0r.
rewrite e1; congr (_ * _); apply: eq_bigr => r _; have [_ _ h3] := hT (n - r)%N (leq_subr _ _).
rewrite coefZ h3 ?(rest_gt0 n_gt0 A0) // /co -!mulrA; do 2! congr (_ * _).
by rewrite [RHS]mulrA [RHS]mulrC -mulrA.
Qed.

Theorem left_split_sum :
  mean P (fun p => (left_split p)%:R * q.+1%:R ^+ (C p).-1) =
  (\sum_(1 <= s < n) l s * a (n - s)%N * (1 - together A s)) / (n%:R * phi n).
Proof.
have hlaw := law_no_clear n_gt0 W0 hW; have hn : (0 < n <= n)%N by rewrite n_gt0 leqnn.
have q0 : q.+1%:R != 0 :> rat by rewrite pnatr_eq0.
have n0 : n%:R != 0 :> rat by rewrite pnatr_eq0 -lt0n.
have f0 : (n`!)%:R != 0 :> rat by apply: fact_neq0.
have m1 : \sum_(p in P) q.+1%:R ^+ (C p).-1 =
    (n`!)%:R * (n`!)%:R * (\sum_(1 <= s < n.+1) l s * a (n - s)%N) / n%:R.
  apply: (mulfI q0).
  transitivity (\sum_(p in P) (q.+1%:R : rat) ^+ C p).
    rewrite mulr_sumr; apply: eq_bigr => p _; rewrite -exprS prednK //.
    by apply: C2_gt0.
  rewrite (moment hlaw) -(power_unique (Recursion.phi0 hlaw) hl a0 ha (leqnn n)).
  rewrite -[a n](mulKf n0) (ha hn).
  have e4 (x y z t : rat) : x * (y * (z * t)) = z * (x * t * y).
    by rewrite mulrA mulrCA; congr (_ * _); rewrite mulrAC.
  exact: e4.
have m2 := left_unsplit.
have -> : mean P (fun p => (left_split p)%:R * q.+1%:R ^+ (C p).-1) =
    (\sum_(p in P) q.+1%:R ^+ (C p).-1 - \sum_(p in P) (C_A p == 1%N)%:R * q.+1%:R ^+ (C p).-1) / #|P|%:R.
  rewrite /mean -sumrB; congr (_ / _); apply: eq_bigr => p _.
  rewrite /left_split met_split ?lefts0 //; have := met_gt0 (left own) (right own p) lefts0.
  case: (C_A p) => // -[|j] _; first by rewrite eqxx mul0r mul1r subrr.
  by rewrite /= mul1r mul0r subr0.
rewrite m1 m2 (card_P hlaw) mulrBl -(together_sum phi l a n_gt0 A0); congr (_ - _).
  by rewrite -mulrA -mulf_div divff ?mulf_neq0 // mul1r -mulrA -invfM.
rewrite -[(n`!)%:R * _ * phi n]mulrA -mulf_div divff // mul1r; congr (_ / _).
apply: eq_bigr => r _; rewrite (power_unique (Recursion.phi0 hlaw) hl a0 ha) //.
by apply: leq_trans (leq_ord r) (leq_subr _ _).
Qed.

(* What worst_case_security_no_clear asks for is at most this. *)
Corollary split_le_left_split :
  mean P (fun p => (split2 own p A)%:R * q.+1%:R ^+ (C p).-1) <=
  (\sum_(1 <= s < n) l s * a (n - s)%N * (1 - together A s)) / (n%:R * phi n).
Proof.
rewrite -left_split_sum; apply: mean_le => p _; rewrite ler_wpmul2r ?exprn_ge0 ?ler0n //.
by rewrite ler_nat /split2 /left_split; case: (splits _ _ L); rewrite // leq_b1.
Qed.
End LeftSplit.

Section AverageNoClear.
Variables (U S : finType) (own : S -> U) (G : finZmodType) (P : {group {perm S}}) (m : nat) (W : nat -> nat).
Hypothesis m_gt0 : (0 < m)%N.
Hypothesis own_m : forall i, #|[pred j | own j == i]| = m.
Hypothesis n_gt0 : (0 < #|U|)%N.
Hypothesis W0 : W 0%N = 1%N.
Hypothesis hW : forall (Q : finType) (c c' : {ffun U -> Q}), #|matching own P c c'| =
  (if same_sizes c c' then \prod_(k : Q) W (class_size c' k) else 0)%N.
Notation n := #|U|.
Notation phi := (weight2 W).
Variables (l a : nat -> rat).
Hypothesis hl : forall k, (0 < k <= n)%N ->
  k%:R * phi k = \sum_(1 <= s < k.+1) l s * phi (k - s)%N.
Hypothesis a0 : a 0%N = 1.
Hypothesis ha : forall k, (0 < k <= n)%N ->
  k%:R * a k = #|G|%:R * \sum_(1 <= s < k.+1) l s * a (k - s)%N.
(* Every user's noise, as in private_sum_independent. *)
Variables (F : realFieldType) (Z : finType) (w0 : Z -> F) (g : Z -> G) (z0 : Z) (i : U).
Hypothesis w0_ge0 : forall v, 0 <= w0 v.
Hypothesis w0_sum : \sum_v w0 v = 1.
Hypothesis g0 : g z0 = 0.

Definition average_left : F :=
  \sum_(1 <= s < n) ratr (l s * a (n - s)%N / (n%:R * phi n)) * (1 - w0 z0 ^+ (n - s)).

Lemma weights_ge0 (o : {ffun U -> Z}) : 0 <= weights w0 o.
Proof. by apply: prodr_ge0. Qed.

Theorem average_left_split : average (weights w0) (noisy z0 i) (Delta2 own G P) <= average_left.
Proof.
have [q hq] : exists q, #|G| = q.+1 by exists #|G|.-1; rewrite prednK //; apply/card_gt0P; exists 0.
have ha' k : (0 < k <= n)%N -> k%:R * a k = q.+1%:R * \sum_(1 <= s < k.+1) l s * a (k - s)%N.
  by rewrite -hq; apply: ha.
apply: (@le_trans _ _ (\sum_o \sum_(1 <= s < n) ratr (l s * a (n - s)%N / (n%:R * phi n)) *
    (weights w0 o * (1 - ratr (together (noisy z0 i o) s))))).
  apply: ler_sum => o _; rewrite (eq_bigr (fun s => weights w0 o *
      ratr (l s * a (n - s)%N * (1 - together (noisy z0 i o) s) / (n%:R * phi n)))); last first.
    by move=> s _; rewrite mulrCA; congr (_ * _); rewrite -(rmorph1 (ratr_rmorphism F)) -rmorphB -rmorphM mulrAC.
  rewrite -mulr_sumr ler_wpmul2l ?weights_ge0 // -rmorph_sum ler_rat -mulr_suml /Delta2 hq.
  by apply: split_le_left_split => //; apply: noisy0.
rewrite exchange_big /= le_eqVlt; apply/orP; left; apply/eqP; apply: eq_big_nat => s /andP [s1 sn].
rewrite -mulr_sumr; congr (_ * _).
rewrite (eq_bigr (fun o => weights w0 o - weights w0 o * ratr (together (noisy z0 i o) s))).
  by rewrite sumrB weights_sum // average_together // s1 ltnW.
by move=> o _; rewrite mulrBr mulr1.
Qed.

Variables (x x' : {ffun U -> G}) (k : F).
Hypothesis k_ge0 : 0 <= k.
Hypothesis hx : forall u, u != i -> x u = x' u.
Notation noise_of := (@noise_of U G Z g).
Hypothesis hnu : forall t, nu (weights w0) noise_of t <= k * nu (weights w0) noise_of (t - (x' i - x i)).

Theorem private_sum_independent_no_clear T (d th : rat) : 0 < d -> 0 < th -> th < 1 ->
  let eta := average_left / ratr (2%:R * (d * th)) +
    ratr (d * (mean P (fun p => #|G|%:R ^+ (C2 own p).-1) - 1) / (4%:R * (1 - th))) in
  M2 own P (weights w0) noise_of x T <=
    (1 + ratr d) ^+ 2 * k * M2 own P (weights w0) noise_of x' T + eta * (1 + (1 + ratr d) * k).
Proof.
move=> d0 t0 t1 /=.
have h2 (o : {ffun U -> Z}) : i \in noisy z0 i o by rewrite !inE eqxx.
have h3 (o : {ffun U -> Z}) u : u \notin noisy z0 i o -> noise_of o u = 0.
  by rewrite !inE negb_or negbK ffunE => /andP [_ /eqP ->].
apply: le_trans (private_sum_no_clear P m_gt0 own_m n_gt0 weights_ge0 (weights_sum U w0_sum)
  h2 h3 k_ge0 hx hnu T d0 t0 t1) _.
rewrite ler_add2l ler_wpmul2r //.
  by rewrite addr_ge0 ?ler01 // mulr_ge0 // addr_ge0 ?ler01 // ler0q ltW.
rewrite ler_add2r ler_wpmul2r ?average_left_split // invr_ge0 ler0q.
by rewrite !mulr_ge0 ?ler0n // ltW.
Qed.
End AverageNoClear.
