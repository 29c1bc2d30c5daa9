(* The four kinds of share graph under one name: one shuffler or parallel ones, with a clear share
   or without. Their components, weights, logarithmic derivative l and moments a. *)
From Coq Require Import NArith.
From mathcomp Require Import all_ssreflect all_fingroup all_algebra.
From Ikos Require Import Graph Shuffle NoClear Colour Recursion Instances Bipartite Numbers Certificate.
Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.
Import Order.TTheory GRing.Theory Num.Theory GroupScope.

Definition shufflers (one : bool) m n : {group {perm 'I_m * 'I_n}} :=
  if one then single _ else parallel m _.
Definition parts (clear : bool) m n : {perm 'I_m * 'I_n} -> nat :=
  if clear then C (@owner m _) else C2 (@owner m _).

(* The weight of k users is that of k - 1 times growth k / divisor k. *)
Definition growth (one : bool) (m : nat) (k : N) : N :=
  if one then foldr (fun i t => N.mul (N.sub (N.mul (bin_of_nat m) k) (bin_of_nat i)) t) 1%num (iota 0 m)
  else power k m.
Definition divisor (clear : bool) (k : N) : N := if clear then k else N.mul k k.

Local Open Scope ring_scope.

(* E[q^(C-1); C >= 2] *)
Definition divergence one clear m n (q : nat) : rat :=
  mean (shufflers one m n) (fun p => (1 < parts clear p)%N%:R * q%:R ^+ (parts clear p).-1).

Section Security.
Variables (one : bool) (m n : nat) (G : finZmodType).
Hypotheses (m_gt0 : (0 < m)%N) (n_gt0 : (0 < n)%N).

Theorem security (x x' : {ffun 'I_n -> G}) T : \sum_i x i = \sum_i x' i ->
  (Pr (@owner m _) (shufflers one m n) x T - Pr (@owner m _) (shufflers one m n) x' T) ^+ 2 <=
  divergence one true m n #|G| / 2%:R.
Proof. exact: (worst_case_security_everyone _ m_gt0 (@owner_m m _) (users_gt0 n_gt0) T). Qed.

Theorem security_no_clear (x x' : {ffun 'I_n -> G}) T : \sum_i x i = \sum_i x' i ->
  (Pr2 (@owner m _) (shufflers one m n) x T - Pr2 (@owner m _) (shufflers one m n) x' T) ^+ 2 <=
  divergence one false m n #|G| / 2%:R.
Proof. exact: (worst_case_security_no_clear_everyone _ m_gt0 (@owner_m m _) (users_gt0 n_gt0) T). Qed.
End Security.

Section Logarithm.
(* Any weights have a logarithmic derivative. *)
Variable phi : nat -> rat.

Fixpoint log_table k : seq rat :=
  if k is j.+1 then let L := log_table j in
    rcons L (k%:R * phi k - \sum_(1 <= s < k) L`_s * phi (k - s)%N)
  else [:: 0].
Definition log_derivative k := (log_table k)`_k.

Lemma size_log k : size (log_table k) = k.+1.
Proof. by elim: k => //= k IH; rewrite size_rcons IH. Qed.

Lemma nth_log k j : (j <= k)%N -> (log_table k)`_j = log_derivative j.
Proof.
elim: k => [|k IH]; first by rewrite leqn0 => /eqP ->.
by rewrite leq_eqVlt => /orP [/eqP -> //|hj]; rewrite /= nth_rcons size_log hj IH.
Qed.

Lemma log_derivativeP k : (0 < k)%N -> phi 0%N = 1 ->
  k%:R * phi k = \sum_(1 <= s < k.+1) log_derivative s * phi (k - s)%N.
Proof.
case: k => // k _ phi0; rewrite big_nat_recr //= subnn phi0 mulr1.
rewrite [X in _ + X]/log_derivative /= nth_rcons size_log ltnn eqxx.
rewrite [X in X + _](eq_big_nat _ _ (F2 := fun s => (log_table k)`_s * phi (k.+1 - s)%N)).
  by rewrite addrC subrK.
by move=> s /andP [_ hs]; rewrite nth_log.
Qed.
End Logarithm.

Section Kind.
Variables (one clear : bool) (m : nat).
Hypothesis m_gt0 : (0 < m)%N.

Definition tuples k := if one then single_weight m k else parallel_weight m k.
Definition phi : nat -> rat := if clear then weight tuples else weight2 tuples.
Definition l := log_derivative phi.

Lemma tuples0 : tuples 0 = 1%N.
Proof. by rewrite /tuples /single_weight /parallel_weight muln0 exp1n; case: one. Qed.

Lemma nat_of_sub_bin b c : nat_of_bin (N.sub b c) = (b - c)%N.
Proof.
case: (N.le_gt_cases c b) => h.
  by rewrite -{2}(N.sub_add _ _ h) nat_of_add_bin addnK.
rewrite (_ : N.sub b c = N0); last exact/N.sub_0_le/N.lt_le_incl.
by apply/esym/eqP; rewrite subn_eq0; apply/nat_of_le/N.leb_le/N.lt_le_incl.
Qed.

Lemma growth_nat (k : N) : nat_of_bin (growth one m k) =
  if one then (\prod_(i < m) (m * nat_of_bin k - i))%N else (nat_of_bin k ^ m)%N.
Proof.
rewrite /growth; case: one; last by rewrite power_nat.
rewrite -(big_mkord xpredT (fun i => m * nat_of_bin k - i)%N) /index_iota subn0.
elim: (iota 0 m) => [|i r IH]; first by rewrite big_nil.
by rewrite big_cons /= nat_of_mul_bin IH nat_of_sub_bin nat_of_mul_bin !bin_of_natK.
Qed.

Lemma tuplesS k : (tuples k.+1 = growth one m (bin_of_nat k.+1) * tuples k)%N.
Proof.
rewrite growth_nat bin_of_natK /tuples; case: one; last by rewrite /parallel_weight -expnMn.
rewrite -ffact_prod /single_weight -(ffact_fact (leq_pmulr m (ltn0Sn k))).
by rewrite [X in (X - m)%N]mulnS addKn.
Qed.

Lemma tuples_gt0 k : (0 < tuples k)%N.
Proof. by rewrite /tuples /single_weight /parallel_weight; case: one; rewrite ?expn_gt0 ?fact_gt0. Qed.

Lemma divisor_nat (k : N) : nat_of_bin (divisor clear k) = (if clear then nat_of_bin k else nat_of_bin k * nat_of_bin k)%N.
Proof. by rewrite /divisor; case: clear; rewrite ?nat_of_mul_bin. Qed.

Lemma divisor_gt0 k : (0 < nat_of_bin k)%N -> (0 < nat_of_bin (divisor clear k))%N.
Proof. by rewrite divisor_nat; case: clear => // h; rewrite muln_gt0 h. Qed.

Lemma phiE k : phi k = (tuples k)%:R / (if clear then (k`!)%:R else (k`!)%:R * (k`!)%:R).
Proof. by rewrite /phi /weight2 /weight; case: clear; rewrite // invfM mulrA. Qed.

Lemma phi0 : phi 0%N = 1.
Proof. by rewrite phiE tuples0 fact0; case: clear. Qed.

Lemma phi_gt0 k : 0 < phi k.
Proof.
by rewrite phiE divr_gt0 ?ltr0n ?tuples_gt0 //; case: clear; rewrite ?mulr_gt0 ?ltr0n ?fact_gt0.
Qed.

Lemma phiS k : phi k.+1 = (nat_of_bin (growth one m (bin_of_nat k.+1)))%:R * phi k / (nat_of_bin (divisor clear (bin_of_nat k.+1)))%:R.
Proof.
have e (a b c d : rat) : a * b / (c * d) = a * (b / d) / c by rewrite -mulf_div mulrAC mulrA.
rewrite !phiE tuplesS divisor_nat bin_of_natK factS; case: clear; rewrite !natrM; first exact: e.
by rewrite [X in _ / X]mulrACA e.
Qed.

Lemma kind_law n : (0 < n)%N ->
  law (shufflers one m n) (@parts clear m n) n phi (if clear then (n`!)%:R else (n`!)%:R * (n`!)%:R).
Proof.
move=> n0; have u0 := users_gt0 n0; have t0 := tuples0.
rewrite /phi /parts /shufflers; move: t0; rewrite /tuples; case: clear; case: one => t0.
- by have := law_clear u0 t0 (single_preserving (@owner_m m [finType of 'I_n])); rewrite card_ord.
- by have := law_clear u0 t0 (@parallel_preserving m [finType of 'I_n]); rewrite card_ord.
- by have := law_no_clear u0 t0 (single_matching m_gt0 (@owner_m m [finType of 'I_n])); rewrite card_ord.
by have := law_no_clear u0 t0 (@parallel_matching m [finType of 'I_n] m_gt0); rewrite card_ord.
Qed.

Lemma l_rec k : (0 < k)%N -> k%:R * phi k = \sum_(1 <= s < k.+1) l s * phi (k - s)%N.
Proof. by move=> k0; apply: log_derivativeP => //; apply: phi0. Qed.

(* l k / (k phi k) is the probability that the graph of k users is connected. *)
Lemma l_probability k : (0 < k)%N -> 0 <= l k <= k%:R * phi k.
Proof.
move=> k0; have hl := kind_law k0; set K := (if clear then _ else _) in hl.
have := connected hl (fun j hj => l_rec (proj1 (andP hj))); have := card_P hl.
have k1 : (0 : rat) < k%:R by rewrite ltr0n.
have K0 : 0 < K by rewrite /K; case: (clear); rewrite ?mulr_gt0 ?ltr0n ?fact_gt0.
move=> hP hc; rewrite -(ler_pdivr_mull _ _ k1) -[0 <= l k](pmulr_lge0 _ (_ : 0 < k%:R^-1)) ?invr_gt0 //.
rewrite -[0 <= _](pmulr_rge0 _ K0) -[_ <= phi k](ler_pmul2l K0) -hc -hP [_ * l k]mulrC -hc.
rewrite -sumr_const sumr_ge0 ?ler_sum // => p _; rewrite ?ler0n //; case: (_ == _)%N; rewrite ?lexx ?ler01 //.
Qed.

Definition a n q k : rat := (F n phi ^+ q)`_k.

Lemma a_0 n q : a n q 0 = 1.
Proof. by rewrite /a F0 // phi0. Qed.

Lemma a_rec n q k : (0 < k <= n)%N ->
  k%:R * a n q k = q%:R * \sum_(1 <= s < k.+1) l s * a n q (k - s)%N.
Proof. by apply: power_recursion => j /andP [j0 _]; apply: l_rec. Qed.

Theorem divergenceE n q : (0 < n)%N -> (0 < q)%N -> divergence one clear m n q =
  (\sum_(1 <= s < n) l s * a n q (n - s)%N) / (n%:R * phi n).
Proof.
case: q => // q n0 _.
apply: (divergence_recursion (kind_law n0) _ (a_0 _ _) (@a_rec n q.+1)) => j /andP [j0 _].
exact: l_rec.
Qed.
End Kind.
