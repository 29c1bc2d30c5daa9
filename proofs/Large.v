(* What the recursion makes of few known moments; the growth of the weights. *)
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
(* Bits of a mantissa. *)
Variables (p : N) (num den : N -> N) (M : N).

(* [:: fall k 1; ...; fall k j] times x *)
Fixpoint falls x k j : seq dyadic :=
  if j is i.+1 then
    let y := div true (mul true p (whole (den k)) x) (num k) in y :: falls y (N.pred k) i
  else [::].

(* 2^S head k, from upper bounds [:: 2^S fall k 1; ...], [:: a_0; a_1; ...] and
   [:: phi_1; phi_2; ...] *)
Definition head_up k J (A F bs : seq dyadic) : dyadic :=
  let zs := [seq add true (mul true p (whole k) (nth zero A j.+1))
    (mul true p (whole (N.mul (bin_of_nat j.+1) M)) (nth zero F j)) | j <- iota 0 J.-1] in
  div true (dot p true zs bs) k.

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

Lemma leb_val x s y : leb x s y -> val x * 2%:R ^+ nat_of_bin s <= val y.
Proof.
move/leb_sound/nat_of_Nle; rewrite -(ler_nat rat_numDomainType) nat_of_mul_bin natrM.
by rewrite power_rat.
Qed.

End Sound.
