(* A bound of E[q^(C-1); C >= 2] for any number of users from the moments of few. *)
From Coq Require Import NArith.
From mathcomp Require Import all_ssreflect all_fingroup all_algebra.
From Ikos Require Import Graph Shuffle NoClear Colour Recursion Instances Numbers Certificate Dyadic Kinds Rounded.
Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.
Import Order.TTheory GRing.Theory Num.Theory GroupScope.
Local Open Scope ring_scope.

Lemma leq_swap j k s : (j <= k)%N -> (s <= k - j)%N -> (j <= k - s)%N.
Proof.
move=> h1 h2; rewrite leq_subRL; last exact: leq_trans h2 (leq_subr _ _).
by rewrite addnC -leq_subRL.
Qed.

Section Bound.
Variables (phi l a : nat -> rat) (q M : rat) (n J : nat).
Hypothesis phi_gt0 : forall k, 0 < phi k.
Definition rise k : rat := phi k.+1 / (k.+1%:R * phi k).
Hypothesis rise_mono : forall k, rise k <= rise k.+1.
Hypothesis l_bounds : forall k, (0 < k)%N -> 0 <= l k <= k%:R * phi k.
Hypothesis q_ge0 : 0 <= q.
Hypothesis M_ge0 : 0 <= M.
Hypothesis a_ge0 : forall k, (k <= n)%N -> 0 <= a k.
Hypothesis a0 : a 0%N = 1.
Hypothesis ha : forall k, (0 < k <= n)%N ->
  k%:R * a k = q * \sum_(1 <= s < k.+1) l s * a (k - s)%N.
Hypotheses (J_gt0 : (0 < J)%N) (J_le : (J <= n)%N).

(* phi_(k-j) / phi_k *)
Definition fall k j : rat := phi (k - j)%N / phi k.
Definition head k : rat :=
  (\sum_(1 <= j < J) fall k j * (k%:R * a j + j%:R * M * phi j)) / k%:R.
Definition large k : rat := head k + k%:R * M * (fall k J * phi J).

Lemma rise_gt0 k : 0 < rise k.
Proof. by rewrite divr_gt0 ?mulr_gt0 ?ltr0n. Qed.

Lemma rise_leq k k' : (k <= k')%N -> rise k <= rise k'.
Proof. exact: (@homo_leq _ rise (fun b c => b <= c) (@lexx _ _) (fun c b d => @le_trans _ _ c b d) rise_mono). Qed.

Definition ratio k : rat := phi k.+1 / phi k.

Lemma ratio_gt0 k : 0 < ratio k.
Proof. by rewrite divr_gt0. Qed.

Lemma ratioE k : ratio k = k.+1%:R * rise k.
Proof. by rewrite /rise /ratio invfM mulrCA mulVKf // pnatr_eq0. Qed.

Lemma ratio_leq k k' : (k <= k')%N -> ratio k <= ratio k'.
Proof.
by move=> h; rewrite !ratioE ler_pmul ?ler0n ?(ltW (rise_gt0 _)) ?ler_nat ?ltnS ?rise_leq.
Qed.

Lemma phi_neq0 k : phi k != 0.
Proof. exact: lt0r_neq0. Qed.

Lemma shift_leq d x y : (x <= y)%N -> phi (x + d)%N / phi x <= phi (y + d)%N / phi y.
Proof.
move=> h; elim: d => [|d IH]; first by rewrite !addn0 !divff ?phi_neq0.
have e z : phi (z + d.+1)%N / phi z = ratio (z + d)%N * (phi (z + d)%N / phi z).
  by rewrite /ratio addnS mulrA divfK ?phi_neq0.
rewrite !e ler_pmul ?(ltW (ratio_gt0 _)) ?divr_ge0 ?(ltW (phi_gt0 _)) //.
by rewrite ratio_leq // leq_add2r.
Qed.

Lemma fall_ge0 k j : 0 <= fall k j.
Proof. by rewrite divr_ge0 ?(ltW (phi_gt0 _)). Qed.

Lemma fall_leq j k k' : (j <= k)%N -> (k <= k')%N -> fall k' j <= fall k j.
Proof.
move=> hj hk; have h := shift_leq j (leq_sub2r j hk); rewrite !subnK ?(leq_trans hj) // in h.
by rewrite /fall -[X in X <= _]invf_div -[X in _ <= X]invf_div ler_pinv ?inE ?unitfE ?mulf_neq0 ?invr_neq0 ?phi_neq0 ?divr_gt0.
Qed.

Lemma middle_leq s k : (J <= s <= k - J)%N -> phi s * phi (k - s)%N <= phi J * phi (k - J)%N.
Proof.
case/andP => h1 h2; have hk : (s <= k)%N := leq_trans h2 (leq_subr _ _).
have h3 : (J <= k - s)%N by apply: leq_swap h2; apply: leq_trans h1 hk.
have := shift_leq (s - J) h3; rewrite subnKC // addnBA // subnK //.
by rewrite ler_pdivr_mulr // mulrAC ler_pdivl_mulr // [X in _ <= X]mulrC.
Qed.

Lemma scaled_fall_leq k k' : (J <= k)%N -> (k <= k')%N -> k'%:R * fall k' J <= k%:R * fall k J.
Proof.
move=> hJ hk; have k0 : (0 < k)%N := leq_trans J_gt0 hJ.
have e z : (J <= z)%N -> z%:R * fall z J = (rise z.-1)^-1 * fall z.-1 J.-1.
  case: z => [|z] hz; first by move: hz; rewrite leqNgt J_gt0.
  rewrite /fall /rise /= invf_div -[X in (_.+1 - X)%N](prednK J_gt0) subSS.
  by rewrite [_ / _ in RHS]mulrAC mulrACA divff ?phi_neq0 // mulr1 mulrAC mulrA.
rewrite !e ?(leq_trans hJ) // ler_pmul ?invr_ge0 ?(ltW (rise_gt0 _)) ?fall_ge0 //.
  by rewrite ler_pinv ?inE ?unitfE ?lt0r_neq0 ?rise_gt0 // rise_leq // -!subn1 leq_sub2r.
by apply: fall_leq; rewrite -!subn1 leq_sub2r.
Qed.

Lemma head_ge0 k : 0 <= head k.
Proof.
have z0 s : 0 <= phi s by apply: ltW.
rewrite divr_ge0 ?ler0n // big_nat_cond sumr_ge0 // => j /andP [/andP [_ hj] _].
rewrite mulr_ge0 ?fall_ge0 // addr_ge0 ?mulr_ge0 ?ler0n //.
by rewrite a_ge0 // (leq_trans (ltnW hj)).
Qed.

Lemma large_ge0 k : 0 <= large k.
Proof.
have z0 s : 0 <= phi s by apply: ltW.
apply: addr_ge0 (head_ge0 k) _.
exact: mulr_ge0 (mulr_ge0 (ler0n _ _) M_ge0) (mulr_ge0 (fall_ge0 _ _) (z0 _)).
Qed.

Lemma head_leq k k' : (J <= k)%N -> (k <= k')%N -> head k' <= head k.
Proof.
move=> hJ hk; have k0 : (0 < k)%N := leq_trans J_gt0 hJ; rewrite /head.
rewrite !mulr_suml ler_sum_nat // => j /andP [_ hj].
have e (z : nat) : (0 < z)%N -> fall z j * (z%:R * a j + j%:R * M * phi j) / z%:R =
    fall z j * (a j + j%:R * M * phi j / z%:R).
  by move=> z0; rewrite -mulrA mulrDl [_ * a j]mulrC mulfK // pnatr_eq0 -lt0n.
have hjn : 0 <= j%:R * M * phi j by rewrite !mulr_ge0 ?ler0n ?(ltW (phi_gt0 _)).
rewrite !e ?(leq_trans k0) // ler_pmul ?fall_ge0 //.
- by rewrite addr_ge0 ?divr_ge0 ?ler0n // a_ge0 // (leq_trans (ltnW hj)).
- by rewrite fall_leq // (leq_trans (ltnW hj)).
rewrite ler_add2l ler_wpmul2l // ler_pinv ?inE ?unitfE ?pnatr_eq0 -?lt0n ?ltr0n ?(leq_trans k0) //.
by rewrite ler_nat.
Qed.

Lemma large_leq k k' : (J <= k)%N -> (k <= k')%N -> large k' <= large k.
Proof.
move=> hJ hk; have hM (z : nat) : z%:R * M * (fall z J * phi J) = z%:R * fall z J * (M * phi J).
  by rewrite mulrACA.
rewrite /large !hM ler_add ?head_leq //.
by rewrite ler_wpmul2r ?mulr_ge0 ?(ltW (phi_gt0 _)) // scaled_fall_leq.
Qed.

(* The terms s < J, those with k - s < J, and those between. *)
Lemma step_by Y k : (J <= k <= n)%N -> 0 <= Y ->
  (forall s, (0 < s < J)%N -> (J <= k - s)%N -> a (k - s)%N <= M * phi (k - s)%N) ->
  (forall s, (J <= s <= k - J)%N -> phi s * a (k - s)%N <= Y) ->
  (\sum_(1 <= s < k) l s * a (k - s)%N) / (k%:R * phi k) <= head k + k%:R * (Y / phi k).
Proof.
case/andP => hJ hn Y0 hends hmiddle; have k0 : (0 < k)%N := leq_trans J_gt0 hJ.
have k1 : (0 : rat) < k%:R by rewrite ltr0n.
have z0 s : 0 <= phi s by apply: ltW.
rewrite ler_pdivr_mulr ?mulr_gt0 //.
have -> : (head k + k%:R * (Y / phi k)) * (k%:R * phi k) =
    \sum_(1 <= j < J) phi (k - j)%N * (k%:R * a j) +
    \sum_(1 <= j < J) j%:R * phi j * (M * phi (k - j)%N) + k%:R * (k%:R * Y).
  rewrite mulrDl /head mulrA divfK ?lt0r_neq0 // -big_split /= mulr_suml; congr (_ + _).
    apply: eq_bigr => j _; rewrite /fall mulrAC divfK ?phi_neq0 // mulrDr; congr (_ + _).
    by rewrite [RHS]mulrC -!mulrA mulrCA; congr (_ * _); rewrite mulrCA.
  by rewrite -mulrA; congr (_ * _); rewrite mulrCA divfK ?phi_neq0.
have hw (X : nat -> rat) : \sum_(1 <= j < J) X j = \sum_(1 <= j < k) (if (j < J)%N then X j else 0).
  by rewrite (big_nat_widen _ _ _ _ _ hJ) [LHS]big_mkcond.
have -> : k%:R * (k%:R * Y) = \sum_(0 <= s < k) k%:R * Y.
  by rewrite sumr_const_nat subn0 mulr_natl.
have c0 : 0 <= k%:R * Y by rewrite mulr_ge0 ?ler0n.
rewrite [X in _ <= _ + X]big_ltn // addrCA ler_paddl // !hw [X in _ <= X + _ + _]big_nat_rev /=.
rewrite -!big_split ler_sum_nat // => s /andP [s0 hs] /=.
have ks : (k - s <= n)%N := leq_trans (leq_subr _ _) hn.
rewrite add1n subSS subKn; last exact: ltnW.
have /andP [l0 l1] := l_bounds s0.
have t1 : l s * a (k - s)%N <= s%:R * phi s * a (k - s)%N by rewrite ler_wpmul2r // a_ge0.
apply: le_trans t1 _; case: (ltnP (k - s) J) => h1.
  apply: ler_paddr => //; apply: ler_paddr.
    by case: ifP => _ //; rewrite !mulr_ge0 ?ler0n.
  by rewrite mulrAC mulrC ler_wpmul2l // ler_wpmul2r ?a_ge0 // ler_nat ltnW.
rewrite add0r; case: (ltnP s J) => h3.
  by apply: ler_paddr => //; rewrite ler_wpmul2l ?mulr_ge0 ?ler0n // hends // s0.
rewrite add0r -mulrA ler_pmul ?mulr_ge0 ?ler0n ?a_ge0 ?ler_nat //; first exact: ltnW.
by rewrite hmiddle // h3 leq_swap // ltnW.
Qed.

(* What the recursion makes of moments at most M phi_k for J <= k. *)
Lemma step k : (J <= k <= n)%N -> (forall j, (J <= j < k)%N -> a j <= M * phi j) ->
  (\sum_(1 <= s < k) l s * a (k - s)%N) / (k%:R * phi k) <= large k.
Proof.
move=> hk h; have z0 s : 0 <= phi s by apply: ltW.
have -> : large k = head k + k%:R * (M * (phi J * phi (k - J)%N) / phi k).
  by congr (_ + _); rewrite -!mulrA; do 2 congr (_ * _); rewrite mulrA mulrC.
have k0 : (0 < k)%N by apply: leq_trans J_gt0 _; case/andP: hk.
apply: step_by => //; first by rewrite !mulr_ge0.
  by move=> s /andP [s0 hs] hJ; rewrite h // hJ ltn_subrL s0.
move=> s hs; have /andP [h1 h2] := hs; have s0 := leq_trans J_gt0 h1.
apply: le_trans (_ : phi s * (M * phi (k - s)%N) <= _).
  by rewrite ler_wpmul2l // h // ltn_subrL s0 k0 andbT (leq_swap _ h2) //; case/andP: hk.
by rewrite mulrCA ler_wpmul2l // middle_leq.
Qed.

Variable K : nat.
Hypothesis hJK : (J <= K)%N.
Hypothesis few : forall k, (J <= k < K)%N -> a k <= M * phi k.
Hypothesis closed : q * (1 + large K) <= M.

Lemma moment_leq k : (J <= k <= n)%N -> a k <= M * phi k.
Proof.
elim/ltn_ind: k => k IH hk; case: (ltnP k K) => h.
  by apply: few; rewrite h andbT; case/andP: hk.
have [h1 h2] := andP hk; have k0 : (0 < k)%N := leq_trans J_gt0 h1.
have k1 : 0 < k%:R * phi k by rewrite mulr_gt0 ?ltr0n.
have hs : \sum_(1 <= s < k) l s * a (k - s)%N <= large k * (k%:R * phi k).
  rewrite -ler_pdivr_mulr //; apply: (step hk) => j /andP [j1 j2].
  by apply: IH; rewrite // j1 (leq_trans (ltnW j2)).
have k2 : (0 : rat) < k%:R by rewrite ltr0n.
rewrite -(ler_pmul2l k2) ha ?k0 // big_nat_recr //= subnn a0 mulr1.
apply: le_trans (_ : q * (large K * (k%:R * phi k) + k%:R * phi k) <= _).
  rewrite ler_wpmul2l // ler_add //; last by case/andP: (l_bounds k0).
  by apply: le_trans hs _; rewrite ler_wpmul2r ?(ltW k1) // large_leq.
rewrite -[X in _ + X]mul1r -mulrDl mulrA [X in _ <= X]mulrCA ler_wpmul2r ?(ltW k1) //.
by rewrite addrC.
Qed.

Theorem large_sound k : (0 < n)%N -> (J <= k <= n)%N ->
  (\sum_(1 <= s < n) l s * a (n - s)%N) / (n%:R * phi n) <= large k.
Proof.
move=> n0 /andP [h1 h2]; apply: le_trans (large_leq h1 h2).
apply: step; first by rewrite J_le leqnn.
by move=> j /andP [j1 j2]; apply: moment_leq; rewrite j1 ltnW.
Qed.
End Bound.

(* Where two messages hide, the weights grow as the bound needs. *)
Section Growth.
Variables (one clear : bool) (m : nat).
Hypothesis hides : ((~~ clear) + 1 < m)%N.

Lemma growth_scaled (x y : N) : (nat_of_bin x <= nat_of_bin y)%N ->
  (growth one m x * nat_of_bin y ^ m <= growth one m y * nat_of_bin x ^ m)%N.
Proof.
move=> h; rewrite !growth_nat; case: one; last by rewrite mulnC.
have hp z : (z ^ m = \prod_(i < m) z)%N by rewrite prod_nat_const card_ord.
rewrite !hp -!big_split; apply: leq_prod => i _ /=.
by rewrite !mulnBl mulnAC leq_sub2l // leq_mul2l h orbT.
Qed.

Lemma kind_rise k : rise (phi one clear m) k <= rise (phi one clear m) k.+1.
Proof.
pose d := (~~ clear + 2)%N; have hd : (d <= m)%N by rewrite /d addnS.
have e z : rise (phi one clear m) z = (nat_of_bin (growth one m (bin_of_nat z.+1)))%:R / (z.+1 ^ d)%:R.
  have e1 (g f b t : rat) : f != 0 -> g * f / b / (t * f) = g / (b * t).
    by move=> f0; rewrite [g * f / b]mulrAC -mulf_div divff // mulr1 -mulrA -invfM.
  rewrite /rise phiS e1 ?lt0r_neq0 ?phi_gt0 // divisor_nat bin_of_natK -natrM; congr (_ / _%:R).
  by rewrite /d; case: (clear); rewrite /= !expnS muln1 ?mulnA.
rewrite !e ler_pdivr_mulr ?ltr0n ?expn_gt0 // mulrAC ler_pdivl_mulr ?ltr0n ?expn_gt0 //.
rewrite -!natrM ler_nat; set x := bin_of_nat k.+1; set y := bin_of_nat k.+2.
have hxy : (nat_of_bin x <= nat_of_bin y)%N by rewrite !bin_of_natK.
have em z : (z ^ m = z ^ (m - d) * z ^ d)%N by rewrite -expnD subnK.
have := growth_scaled hxy; rewrite !bin_of_natK !em !mulnA => h.
rewrite -(leq_pmul2r (_ : 0 < k.+2 ^ (m - d))%N) ?expn_gt0 // [X in (X <= _)%N]mulnAC.
apply: leq_trans h _; rewrite [X in (X <= _)%N]mulnAC; apply: leq_mul => //.
by case: (m - d)%N => // r; rewrite leq_exp2r.
Qed.
End Growth.

Local Close Scope ring_scope.

Section Evaluation.
(* Bits of a mantissa, bits of the scale. *)
Variables (p S : N) (num den : N -> N) (q M : N).

(* [:: fall k 1; ...; fall k j] times x *)
Fixpoint falls x k j : seq dyadic :=
  if j is i.+1 then
    let y := div true (mul true p (whole (den k)) x) (num k) in y :: falls y (N.pred k) i
  else [::].

(* 2^S head k and 2^S large k, from upper bounds [:: 2^S fall k 1; ...], [:: a_0; a_1; ...] and
   [:: phi_1; phi_2; ...] *)
Definition head_up k J (A F bs : seq dyadic) : dyadic :=
  let zs := [seq add true (mul true p (whole k) (nth zero A j.+1))
    (mul true p (whole (N.mul (bin_of_nat j.+1) M)) (nth zero F j)) | j <- iota 0 J.-1] in
  div true (dot p true zs bs) k.

Definition large_up k J (A F : seq dyadic) : dyadic :=
  let bs := falls (1%num, S) k J in
  add true (head_up k J A F bs)
    (mul true p (whole (N.mul k M)) (mul true p (nth zero bs J.-1) (nth zero F J.-1))).

Definition large_check (J K : nat) (users mantissa shift : N) : bool :=
  let Fd := weights p num den false (whole 1) 1 K in let F := weights p num den true (whole 1) 1 K in
  let A := rev (moments p q (rev (logs p Fd F K).2) K) in
  [&& all (fun k => leb (nth zero A k) 0 (mul false p (whole M) (nth zero Fd k.-1))) (iota J (K - J)),
   leb (mul true p (whole q) (add true (1%num, S) (large_up (bin_of_nat K) J A F))) 0 (M, S) &
   leb (large_up users J A F) shift (mantissa, S)].
End Evaluation.

Local Open Scope ring_scope.

Lemma val_scaled k S : val (k, S) = (nat_of_bin k)%:R * 2%:R ^+ nat_of_bin S.
Proof. by rewrite /val /value nat_of_mul_bin natrM power_rat. Qed.

Lemma val_power S : val (1%num, S) = 2%:R ^+ nat_of_bin S.
Proof. by rewrite val_scaled mul1r. Qed.

Section Sound.
Variables (p S : N) (num den : N -> N) (q M : N).
Variables (phi l a : nat -> rat).
Hypothesis phi0 : phi 0%N = 1.
Hypothesis phi_gt0 : forall k, 0 < phi k.
Hypothesis den_gt0 : forall k, (0 < nat_of_bin k)%N -> (0 < nat_of_bin (den k))%N.
Hypothesis phiS : forall k, phi k.+1 =
  (nat_of_bin (num (bin_of_nat k.+1)))%:R * phi k / (nat_of_bin (den (bin_of_nat k.+1)))%:R.
Hypothesis hl : forall k, (0 < k)%N -> k%:R * phi k = \sum_(1 <= s < k.+1) l s * phi (k - s)%N.
Hypothesis l_bounds : forall k, (0 < k)%N -> 0 <= l k <= k%:R * phi k.
Hypothesis rises : forall k, rise phi k <= rise phi k.+1.
Hypothesis a0 : a 0%N = 1.
Variable n : nat.
Hypothesis ha : forall k, (0 < k <= n)%N ->
  k%:R * a k = (nat_of_bin q)%:R * \sum_(1 <= s < k.+1) l s * a (k - s)%N.

Lemma num_gt0 k : (0 < nat_of_bin k)%N -> (0 < nat_of_bin (num k))%N.
Proof.
rewrite -{2}(nat_of_binK k); case: (nat_of_bin k) => // j _.
have := phi_gt0 j.+1; rewrite phiS lt0n; apply: contraTneq => ->.
by rewrite !mul0r ltxx.
Qed.

Lemma falls_bounds x r k j i : bounds true x r -> 0 <= r -> (i < j <= nat_of_bin k)%N ->
  bounds true (nth zero (falls p num den x k j) i) (r * fall phi k i.+1).
Proof.
elim: j x r k i => // j IH x r k i hx r0 /andP [hi hj].
have k0 : (0 < nat_of_bin k)%N by apply: leq_trans hj.
have hk : (nat_of_bin (N.pred k)).+1 = nat_of_bin k.
  rewrite -[in RHS](N.succ_pred k) -?N.add_1_l ?nat_of_add_bin // => e.
  by rewrite e in k0.
have hp := phiS (nat_of_bin (N.pred k)); rewrite hk nat_of_binK in hp.
have d0 : (nat_of_bin (den k))%:R != 0 :> rat by rewrite pnatr_eq0 -lt0n den_gt0.
have n0 : (nat_of_bin (num k))%:R != 0 :> rat by rewrite pnatr_eq0 -lt0n num_gt0.
have f0 z : phi z != 0 by apply: lt0r_neq0.
have e : phi (nat_of_bin (N.pred k)) / phi (nat_of_bin k) = (nat_of_bin (den k))%:R / (nat_of_bin (num k))%:R.
  by rewrite hp invf_div mulrCA invfM [phi _ * _]mulrCA divff // mulr1.
have hy : bounds true (div true (mul true p (whole (den k)) x) (num k))
    (r * (phi (nat_of_bin (N.pred k)) / phi (nat_of_bin k))).
  rewrite e mulrCA mulrC -mulrA [_^-1 * _]mulrC mulrA.
  apply: bounds_div; first exact: num_gt0.
  rewrite mulrC; apply: bounds_mul => //; [exact: ler0n|exact: bounds_whole].
case: i hi => [|i] hi /=.
  by rewrite /fall -hk subSS subn0 hk.
have -> : r * fall phi (nat_of_bin k) i.+2 =
    r * (phi (nat_of_bin (N.pred k)) / phi (nat_of_bin k)) * fall phi (nat_of_bin (N.pred k)) i.+1.
  by rewrite /fall -mulrA; congr (_ * _); rewrite -hk subSS [RHS]mulrC mulrA divfK.
apply: IH => //; first by rewrite mulr_ge0 // divr_ge0 ?(ltW (phi_gt0 _)).
by rewrite -ltnS hi /= -ltnS hk.
Qed.

Lemma size_falls x k j : size (falls p num den x k j) = j.
Proof. by elim: j x k => //= j IH x k; rewrite IH. Qed.

Lemma l_ge0 k : (0 < k)%N -> 0 <= l k.
Proof. by move=> k0; case/andP: (l_bounds k0). Qed.

Let a_ge0 := a_ge0 l_ge0 a0 ha.
Let T : rat := 2%:R ^+ nat_of_bin S.

Lemma bounds_add up x y r s : bounds up x r -> bounds up y s -> bounds up (add up x y) (r + s).
Proof.
move=> h1 h2; apply: (@bounds_rounds up (N.add (value x) (value y))); last exact: add_rounds.
by rewrite nat_of_add_bin natrD; case: up h1 h2 => h1 h2; apply: ler_add.
Qed.

Lemma falls_scale k J i : (i < J <= nat_of_bin k)%N ->
  bounds true (nth zero (falls p num den (1%num, S) k J) i) (T * fall phi (nat_of_bin k) i.+1).
Proof.
move=> h; apply: falls_bounds => //; first by rewrite /bounds val_power.
by rewrite exprn_ge0 // ler0n.
Qed.

Lemma head_bounds k J (A F bs : seq dyadic) : (0 < J)%N -> (J <= nat_of_bin k)%N -> (J <= n)%N ->
  (forall j, (j < J)%N -> bounds true (nth zero A j) (a j)) ->
  (forall j, (j < J)%N -> bounds true (nth zero F j) (phi j.+1)) ->
  (forall i, (i < J)%N -> bounds true (nth zero bs i) (T * fall phi (nat_of_bin k) i.+1)) ->
  (J <= size bs)%N ->
  bounds true (head_up p M k J A F bs) (T * head phi a (nat_of_bin M)%:R J (nat_of_bin k)).
Proof.
move=> J0 hJ hn hA hF hb hs; have T0 : 0 <= T by rewrite exprn_ge0 // ler0n.
have z0 j : 0 <= phi j by apply: ltW.
have f0 j : 0 <= fall phi (nat_of_bin k) j by rewrite divr_ge0.
rewrite /head_up /head; set zs := [seq _ | j <- _].
have sz : size zs = J.-1 by rewrite size_map size_iota.
rewrite mulrA; apply: bounds_div; first exact: leq_trans hJ.
have -> : T * (\sum_(1 <= j < J) fall phi k j * (k%:R * a j + j%:R * M%:R * phi j)) =
    \sum_(i < size zs) (k%:R * a i.+1 + i.+1%:R * M%:R * phi i.+1) * (T * fall phi k i.+1).
  rewrite sz mulr_sumr -{1}(prednK J0) big_add1 /= big_mkord; apply: eq_bigr => i _.
  by rewrite [_ * (_ + _)]mulrC mulrCA.
apply: (@bounds_dot _ _ _ _ (fun i => k%:R * a i.+1 + i.+1%:R * M%:R * phi i.+1) (fun i => T * fall phi k i.+1)).
- rewrite sz => i hi; have hi2 : (i.+1 < J)%N by rewrite -(prednK J0) ltnS.
  have a1 : 0 <= a i.+1 by rewrite a_ge0 // (leq_trans (ltnW hi2)).
  split; first by rewrite addr_ge0 ?mulr_ge0 ?ler0n.
  rewrite (nth_map 0%N) ?size_iota // nth_iota // add0n; apply: bounds_add.
    by apply: bounds_mul; rewrite ?ler0n //; [exact: bounds_whole|exact: hA].
  have -> : i.+1%:R * M%:R = (nat_of_bin (N.mul (bin_of_nat i.+1) M))%:R :> rat.
    by rewrite nat_of_mul_bin bin_of_natK natrM.
  by apply: bounds_mul; rewrite ?ler0n //; [exact: bounds_whole|apply: hF; exact: ltnW].
- rewrite sz => i hi; split; first by rewrite mulr_ge0.
  by apply: hb; apply: leq_trans hi (leq_pred _).
by rewrite sz (leq_trans _ hs) // leq_pred.
Qed.

Lemma large_bounds k J (A F : seq dyadic) : (0 < J)%N -> (J <= nat_of_bin k)%N -> (J <= n)%N ->
  (forall j, (j < J)%N -> bounds true (nth zero A j) (a j)) ->
  (forall j, (j < J)%N -> bounds true (nth zero F j) (phi j.+1)) ->
  bounds true (large_up p S num den M k J A F) (T * large phi a (nat_of_bin M)%:R J (nat_of_bin k)).
Proof.
move=> J0 hJ hn hA hF; have T0 : 0 <= T by rewrite exprn_ge0 // ler0n.
have z0 j : 0 <= phi j by apply: ltW.
have hb i : (i < J)%N -> bounds true (nth zero (falls p num den (1%num, S) k J) i) (T * fall phi (nat_of_bin k) i.+1).
  by move=> hi; apply: falls_scale; rewrite hi.
rewrite /large_up /large mulrDr; apply: bounds_add.
  by apply: head_bounds => //; rewrite size_falls.
rewrite mulrCA -natrM -nat_of_mul_bin; have hJ1 : (J.-1 < J)%N by rewrite prednK.
have tf : 0 <= T * fall phi (nat_of_bin k) J by rewrite mulr_ge0 ?divr_ge0.
rewrite [T * _]mulrA.
apply: bounds_mul; [exact: ler0n|by rewrite mulr_ge0|exact: bounds_whole|].
apply: bounds_mul; [by []|by []| |].
  by have := hb _ hJ1; rewrite prednK.
by have := hF _ hJ1; rewrite prednK.
Qed.

Lemma leb_val x s y : leb x s y -> val x * 2%:R ^+ nat_of_bin s <= val y.
Proof.
move/leb_sound/nat_of_Nle; rewrite -(ler_nat rat_numDomainType) nat_of_mul_bin natrM.
by rewrite power_rat.
Qed.

Theorem large_check_sound J K users mantissa shift : (0 < J)%N -> (J <= K)%N ->
  (K <= nat_of_bin users)%N -> (nat_of_bin users <= n)%N ->
  large_check p S num den q M J K users mantissa shift ->
  (\sum_(1 <= s < n) l s * a (n - s)%N) / (n%:R * phi n) <= (nat_of_bin mantissa)%:R / 2%:R ^+ nat_of_bin shift.
Proof.
move=> J0 hJ hK hn; rewrite /large_check; set Fd := weights _ _ _ _ _ _ _.
set F := weights _ _ _ _ _ _ _; set A := rev _ => /and3P [/allP few closed small].
have hKn : (K <= n)%N := leq_trans hK hn.
have haK k : (0 < k <= K)%N -> k%:R * a k = (nat_of_bin q)%:R * \sum_(1 <= s < k.+1) l s * a (k - s)%N.
  by case/andP => k0 hk; apply: ha; rewrite k0 (leq_trans hk).
have [sA hm] := moments_bounds p phi0 den_gt0 phiS hl l_ge0 a0 haK (leqnn K).
have hA j : (j <= K)%N -> bounds true (nth zero A j) (a j).
  move=> hj; rewrite nth_rev sA ?ltnS // subSS -[X in a X](subKn hj); apply: hm.
  exact: leq_subr.
have hF up j : (j < K)%N -> bounds up (nth zero (weights p num den up (whole 1) 1 K) j) (phi j.+1).
  exact: (f_bounds p phi0 den_gt0 phiS).
have hl_up k : (J <= nat_of_bin k)%N -> bounds true (large_up p S num den M k J A F)
    (T * large phi a (nat_of_bin M)%:R J (nat_of_bin k)).
  move=> hk; apply: large_bounds => //; first exact: leq_trans hKn.
    by move=> j hj; apply: hA; apply: ltnW; apply: leq_trans hJ.
  by move=> j hj; apply: hF; apply: leq_trans hJ.
have T1 : 0 < T by rewrite exprn_gt0 // ltr0n.
have M0 : 0 <= (nat_of_bin M)%:R :> rat by rewrite ler0n.
have hfew k : (J <= k < K)%N -> a k <= M%:R * phi k.
  case/andP => h1 h2; have k0 : (0 < k)%N := leq_trans J0 h1.
  have := few k; rewrite mem_iota h1 subnKC // h2 => /(_ isT) /leb_val; rewrite mulr1 => h.
  apply: le_trans (hA k (ltnW h2)) _; apply: le_trans h _.
  rewrite -[_ <= _]/(bounds false _ _); apply: bounds_mul => //; [exact: ltW|exact: bounds_whole|].
  by rewrite -{2}(prednK k0); apply: hF; rewrite prednK // ltnW.
have hclosed : q%:R * (1 + large phi a M%:R J K) <= M%:R.
  have := leb_val closed; rewrite mulr1 => h.
  rewrite val_scaled -/T in h; rewrite -(ler_pmul2r T1); apply: le_trans h; rewrite -mulrA.
  have := hl_up (bin_of_nat K); rewrite bin_of_natK => /(_ hJ) hx.
  have h1 : bounds true ((1%num, S) : dyadic) T by rewrite /bounds val_power.
  have hL : 0 <= large phi a M%:R J K.
    exact: (large_ge0 phi_gt0 M0 a_ge0 (leq_trans hJ hKn)).
  rewrite -[_ <= _]/(bounds true _ _).
  apply: bounds_mul; [exact: ler0n| |exact: bounds_whole|].
    exact: mulr_ge0 (addr_ge0 ler01 hL) (ltW T1).
  by rewrite mulrDl mul1r [X in _ + X]mulrC; apply: bounds_add.
have n0 : (0 < n)%N := leq_trans J0 (leq_trans hJ hKn).
have Jn : (J <= n)%N := leq_trans hJ hKn.
have hJu : (J <= nat_of_bin users)%N := leq_trans hJ hK.
apply: (@le_trans _ _ (large phi a M%:R J users)).
  apply: (large_sound phi_gt0 rises l_bounds (ler0n _ _) M0 a_ge0 a0 ha J0 Jn hJ hfew hclosed n0).
  by rewrite hJu.
rewrite ler_pdivl_mulr ?exprn_gt0 ?ltr0n // -(ler_pmul2l T1).
have := leb_val small; rewrite val_scaled -/T [_ * T]mulrC.
apply: le_trans; rewrite mulrA ler_wpmul2r ?exprn_ge0 ?ler0n //.
exact: hl_up.
Qed.
End Sound.

(* Is E[q^(C-1); C >= 2] at most mantissa / 2^shift for this number of users and for every larger
   one, by the moments on fewer than K users? M 2^0 bounds E[q^C] from J users on; S is the scale. *)
Definition certified_large (p S : N) (one clear : bool) (m : nat) (q M : N) (J K : nat)
    (users mantissa shift : N) : bool :=
  [&& (~~ clear) + 1 < m, 0 < J, J <= K, N.leb (bin_of_nat K) users &
   large_check p S (growth one m) (divisor clear) q M J K users mantissa shift]%N.

Section Certified.
Variables (p S : N) (one clear : bool) (m : nat) (q M : N) (J K : nat) (users mantissa shift : N).
Variable n : nat.
Hypothesis hn : (nat_of_bin users <= n)%N.

Theorem large_divergence : (0 < nat_of_bin q)%N ->
  certified_large p S one clear m q M J K users mantissa shift ->
  divergence one clear m n q <= mantissa%:R / 2%:R ^+ shift.
Proof.
move=> q0 /and5P [m1 J0 hJ /nat_of_le hK h]; rewrite bin_of_natK in hK.
have m0 : (0 < m)%N by apply: leq_trans m1.
have n0 : (0 < n)%N := leq_trans J0 (leq_trans hJ (leq_trans hK hn)).
rewrite divergenceE //; apply: large_check_sound J0 hJ hK hn h => //.
- exact: phi0.
- exact: phi_gt0.
- exact: divisor_gt0.
- exact: phiS.
- exact: l_rec.
- exact: l_probability.
- exact: kind_rise.
- exact: a_0.
exact: a_rec.
Qed.
End Certified.

Section CertifiedSecurity.
Variables (p S : N) (one : bool) (m : nat) (G : finZmodType) (q M : N) (J K : nat).
Variables (users mantissa shift : N) (n : nat).
Hypotheses (hq : nat_of_bin q = #|G|) (hn : (nat_of_bin users <= n)%N).

Lemma half_large clear (t : rat) :
  certified_large p S one clear m q M J K users mantissa shift ->
  ((0 < m)%N -> (0 < n)%N -> t <= divergence one clear m n #|G| / 2%:R) ->
  t <= mantissa%:R / 2%:R ^+ shift / 2%:R.
Proof.
move=> h ht; have /and5P [m1 J0 hJ /nat_of_le hK _] := h; rewrite bin_of_natK in hK.
apply: le_trans (ht _ _) _; first exact: leq_trans m1.
  exact: leq_trans J0 (leq_trans hJ (leq_trans hK hn)).
rewrite ler_wpmul2r ?invr_ge0 ?ler0n // -hq; apply: large_divergence hn _ h.
by rewrite hq q_gt0.
Qed.

Theorem large_security (x x' : {ffun 'I_n -> G}) T :
  certified_large p S one true m q M J K users mantissa shift -> \sum_i x i = \sum_i x' i ->
  (Pr (@owner m _) (shufflers one m n) x T - Pr (@owner m _) (shufflers one m n) x' T) ^+ 2 <=
  mantissa%:R / 2%:R ^+ shift / 2%:R.
Proof. by move=> h e; apply: (half_large h) => m0 n0; apply: security. Qed.

Theorem large_security_no_clear (x x' : {ffun 'I_n -> G}) T :
  certified_large p S one false m q M J K users mantissa shift -> \sum_i x i = \sum_i x' i ->
  (Pr2 (@owner m _) (shufflers one m n) x T - Pr2 (@owner m _) (shufflers one m n) x' T) ^+ 2 <=
  mantissa%:R / 2%:R ^+ shift / 2%:R.
Proof. by move=> h e; apply: (half_large h) => m0 n0; apply: security_no_clear. Qed.
End CertifiedSecurity.

(* certify(10**6, 2**64, 13), and 14 without a clear share, times 1 + 4/n, for every number of users
   from 10^6 on. *)
Example certificate_million_parallel : certified_large 80 20000 false true 13 18446744073709551616
  36893488147419103232 80 90 1000000 16296352995827131394 239.
Proof. by vm_compute. Qed.

Example certificate_million_parallel_no_clear : certified_large 80 20000 false false 14 18446744073709551616
  36893488147419103232 80 90 1000000 16296352995827131394 239.
Proof. by vm_compute. Qed.

Example certificate_million_single : certified_large 80 20000 true true 13 18446744073709551616
  36893488147419103232 80 90 1000000 10978922021526163044 254.
Proof. by vm_compute. Qed.

Example certificate_million_single_no_clear : certified_large 80 20000 true false 14 18446744073709551616
  36893488147419103232 80 90 1000000 16757878029794962572 256.
Proof. by vm_compute. Qed.

(* So 13 messages and a clear share hide 64-bit numbers by 88 bits, from a million users on. *)
Corollary million (n : nat) (G : finZmodType) (x x' : {ffun 'I_n -> G}) T :
  (nat_of_bin 1000000 <= n)%N -> nat_of_bin 18446744073709551616 = #|G| ->
  \sum_i x i = \sum_i x' i ->
  (Pr (@owner 13 _) (parallel 13 _) x T - Pr (@owner 13 _) (parallel 13 _) x' T) ^+ 2 <=
  1%N%:R / 2%:R ^+ 175 / 2%:R.
Proof.
move=> hn hq; apply: (@large_security 80 20000 false 13 G 18446744073709551616
  36893488147419103232 80 90 1000000 1 175 n hq hn).
by vm_compute.
Qed.
