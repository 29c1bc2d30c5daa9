(* Polya noise: n shares add up to discrete Laplace noise, exactly, and what that noise hides.

   Polya(r, al) has the weights rising r k al^k, times a constant z = (1 - al)^r that need not be rational:
   the theorems hold in any ordered field that has such a z, that is, an n-th root of 1 - al for r = 1/n,
   where polya r z k is the probability of k.

   polya_sum, polya_shares: independent Polya variables whose shapes add up to 1 add up to a geometric
   variable: the probabilities of all tuples with the sum k add up to (1 - al) al^k. Nothing is cut off:
   the tuples with sum k are finitely many.
   polya_mass: the first K+1 probabilities of one share have a sum whose n-th power is between
   1 - al^(K+1) and 1. So they add up to 1.
   laplace_difference, laplace_shares: the difference of two geometric variables below N, and of two
   such sums of shares, is k with probability laplace k (1 - al^(2 (N - |k|))), where
   laplace k = (1 - al) / (1 + al) al^|k|: in the limit, with laplace k.
   laplace_ratio: a shift by s changes the probability of k by a factor of at most al^-|s|. *)
From mathcomp Require Import all_ssreflect all_algebra.
Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.
Import Order.TTheory GRing.Theory Num.Theory.
Local Open Scope ring_scope.

Section Rising.
Variable F : realFieldType.
Implicit Types (r s : F).

(* r (r + 1) ... (r + k - 1) / k! *)
Definition rising r k : F := (\prod_(j < k) (r + j%:R)) / (k`!)%:R.

Lemma fact_neq0 k : (k`!)%:R != 0 :> F.
Proof. by rewrite pnatr_eq0 -lt0n fact_gt0. Qed.

Lemma rising0 r : rising r 0 = 1.
Proof. by rewrite /rising big_ord0 fact0 divr1. Qed.

Lemma risingS r k : k.+1%:R * rising r k.+1 = (r + k%:R) * rising r k.
Proof.
have h : k.+1%:R != 0 :> F by rewrite pnatr_eq0.
rewrite /rising big_ord_recr /= factS natrM invfM [_ * (_^-1 * _)]mulrCA mulVKf //.
by rewrite [_ * (r + _)]mulrC -mulrA.
Qed.

Lemma rising1 k : rising 1 k = 1.
Proof.
elim: k => [|k IH]; first exact: rising0.
have h : k.+1%:R != 0 :> F by rewrite pnatr_eq0.
by apply: (mulfI h); rewrite risingS IH -mulrS.
Qed.

Lemma rising_zero k : rising 0 k = (k == 0%N)%:R.
Proof.
case: k => [|k]; first exact: rising0.
by rewrite /rising big_ord_recl addr0 !mul0r.
Qed.

Lemma rising_ge0 r k : 0 <= r -> 0 <= rising r k.
Proof.
move=> r0; rewrite /rising mulr_ge0 ?invr_ge0 ?ler0n //.
by apply: prodr_ge0 => j _; rewrite addr_ge0 ?ler0n.
Qed.

Lemma rising_sum r s k : \sum_(i < k.+1) rising r i * rising s (k - i) = rising (r + s) k.
Proof.
elim: k => [|k IH]; first by rewrite big_ord1 !rising0 mulr1.
have h : k.+1%:R != 0 :> F by rewrite pnatr_eq0.
apply: (mulfI h); rewrite risingS -IH !mulr_sumr.
transitivity (\sum_(i < k.+2) (i%:R * rising r i) * rising s (k.+1 - i) +
    \sum_(i < k.+2) rising r i * ((k.+1 - i)%:R * rising s (k.+1 - i))).
  rewrite -big_split; apply: eq_bigr => i _ /=.
  have -> : k.+1%:R = i%:R + (k.+1 - i)%:R :> F by rewrite -natrD subnKC // -ltnS.
  by rewrite mulrDl -mulrA [X in _ + X = _]mulrCA.
rewrite big_ord_recl mul0r mul0r add0r [X in _ + X]big_ord_recr /= subnn !mul0r mulr0 addr0.
rewrite -big_split; apply: eq_bigr => i _ /=; rewrite /bump leq0n add1n subSS risingS.
have hi : (i <= k)%N by rewrite -ltnS.
rewrite subSn // risingS [X in _ + X]mulrCA -[_ * rising r i * _]mulrA -mulrDl; congr (_ * _).
by rewrite addrACA -natrD subnKC.
Qed.
End Rising.

Section Sums.
Variables (F : realFieldType) (al : F) (K : nat).
Implicit Types (r s z : F).

(* Generating function, up to degree K. *)
Definition series r : {poly F} := \poly_(k < K.+1) (rising r k * al ^+ k).

Lemma seriesM r s k : (k <= K)%N -> (series r * series s)`_k = (series (r + s))`_k.
Proof.
move=> hk; rewrite coefM coef_poly ltnS hk -rising_sum mulr_suml; apply: eq_bigr => i _.
have hi : (i <= k)%N by rewrite -ltnS.
rewrite !coef_poly !ltnS (leq_trans hi hk) (leq_trans (leq_subr _ _) hk).
by rewrite mulrACA -exprD subnKC.
Qed.

Lemma series_prod (I : Type) (t : seq I) (r : I -> F) k : (k <= K)%N ->
  (\prod_(c <- t) series (r c))`_k = (series (\sum_(c <- t) r c))`_k.
Proof.
elim: t k => [|c t IH] k hk.
  by rewrite !big_nil coef1 coef_poly ltnS hk rising_zero; case: k hk => [|k] _; rewrite ?mul0r ?mul1r.
rewrite !big_cons -seriesM // !coefM; apply: eq_bigr => i _.
by rewrite IH // (leq_trans (leq_subr _ _)).
Qed.

(* The probability of k, for z = (1 - al)^r. *)
Definition polya r z k : F := z * (rising r k * al ^+ k).
Definition geometric k : F := (1 - al) * al ^+ k.

Variable I : finType.
Notation tuples := {ffun I -> 'I_K.+1}.
Definition tsum (x : tuples) : nat := \sum_c x c.

Lemma tuples_sum (r : I -> F) k : (k <= K)%N ->
  \sum_(x : tuples | tsum x == k) \prod_c (rising (r c) (x c) * al ^+ x c) = (series (\sum_c r c))`_k.
Proof.
move=> hk; rewrite -series_prod //.
have -> : \prod_c series (r c) = \prod_c \sum_(j < K.+1) (rising (r c) j * al ^+ j) *: 'X^j.
  by apply: eq_bigr => c _; rewrite /series poly_def.
rewrite bigA_distr_bigA coef_sum big_mkcond; apply: eq_bigr => x _ /=.
rewrite scaler_prod -expr_sum coefZ coefXn eq_sym -/(tsum x).
by case: eqP => _; rewrite ?mulr1 ?mulr0.
Qed.

(* Shares of any shapes that add up to 1. *)
Theorem polya_sum (r z : I -> F) k : \sum_c r c = 1 -> \prod_c z c = 1 - al -> (k <= K)%N ->
  \sum_(x : tuples | tsum x == k) \prod_c polya (r c) (z c) (x c) = geometric k.
Proof.
move=> hr hz hk; under eq_bigr => x _ do rewrite big_split /= hz.
by rewrite -mulr_sumr tuples_sum // hr coef_poly ltnS hk rising1 mul1r.
Qed.

Variable z : F.
Hypothesis hz : z ^+ #|I| = 1 - al.
Hypothesis I_gt0 : (0 < #|I|)%N.
Definition share k : F := polya (#|I|%:R)^-1 z k.

Theorem polya_shares k : (k <= K)%N ->
  \sum_(x : tuples | tsum x == k) \prod_c share (x c) = geometric k.
Proof.
move=> hk; apply: (@polya_sum (fun=> (#|I|%:R)^-1) (fun=> z)) => //; last by rewrite prodr_const.
by rewrite sumr_const -[LHS]mulr_natl mulfV // pnatr_eq0 -lt0n.
Qed.

Lemma sum_by_total (W : tuples -> F) (h : nat -> F) :
  \sum_(x | (tsum x < K.+1)%N) W x * h (tsum x) = \sum_(a < K.+1) (\sum_(x | tsum x == a) W x) * h a.
Proof.
rewrite (partition_big (fun x => inord (tsum x) : 'I_K.+1) xpredT) //=; apply: eq_bigr => a _.
rewrite mulr_suml; apply: eq_big => [x|x /andP [h1 /eqP <-]]; last by rewrite inordK.
apply/andP/eqP => [[h1 /eqP <-]|->]; first by rewrite inordK.
by split; [rewrite ltn_ord | rewrite inord_val].
Qed.

Lemma geometric_sum N : \sum_(a < N) geometric a = 1 - al ^+ N.
Proof.
elim: N => [|N IH]; first by rewrite big_ord0 expr0 subrr.
by rewrite big_ord_recr /= IH /geometric mulrBl mul1r -exprS addrA subrK.
Qed.

Lemma shares_below : \sum_(x | (tsum x < K.+1)%N) \prod_c share (x c) = 1 - al ^+ K.+1.
Proof.
have := sum_by_total (fun x => \prod_c share (x c)) (fun=> 1).
under eq_bigr => x _ do rewrite mulr1; move=> ->.
rewrite -geometric_sum; apply: eq_bigr => a _; rewrite mulr1 polya_shares //.
by rewrite -ltnS.
Qed.
End Sums.

Section Mass.
(* The probabilities of one share add up to 1. *)
Variables (F : realFieldType) (al z : F) (I : finType).
Hypotheses (al_ge0 : 0 <= al) (z_ge0 : 0 <= z) (hz : z ^+ #|I| = 1 - al) (I_gt0 : (0 < #|I|)%N).

Lemma share_ge0 k : 0 <= share al I z k.
Proof.
apply: mulr_ge0 => //; apply: mulr_ge0; last exact: exprn_ge0.
by apply: rising_ge0; rewrite invr_ge0 ler0n.
Qed.

Lemma shares_power K : (\sum_(j < K.+1) share al I z j) ^+ #|I| =
  \sum_(x : {ffun I -> 'I_K.+1}) \prod_c share al I z (x c).
Proof. by rewrite -prodr_const bigA_distr_bigA. Qed.

Theorem polya_mass K : 1 - al ^+ K.+1 <= (\sum_(j < K.+1) share al I z j) ^+ #|I| <= 1.
Proof.
have p0 L (x : {ffun I -> 'I_L.+1}) : 0 <= \prod_c share al I z (x c).
  by apply: prodr_ge0 => c _; apply: share_ge0.
rewrite shares_power -(shares_below K hz I_gt0); apply/andP; split.
  rewrite [X in _ <= X](bigID (fun x => (tsum x < K.+1)%N)) /= ler_addl.
  by apply: sumr_ge0 => x _.
have hK : (K.+1 <= (#|I| * K).+1)%N by rewrite ltnS leq_pmull.
pose h (x : {ffun I -> 'I_K.+1}) : {ffun I -> 'I_(#|I| * K).+1} := [ffun c => widen_ord hK (x c)].
have hI : {in predT &, injective h}.
  move=> x y _ _ /ffunP e; apply/ffunP => c; have := e c; rewrite !ffunE => /(congr1 val) /= ?.
  exact: val_inj.
have hsum x : (tsum (h x) < (#|I| * K).+1)%N.
  rewrite ltnS; apply: (@leq_trans (\sum_(c : I) K)%N); last by rewrite sum_nat_const.
  by apply: leq_sum => c _; rewrite ffunE /= -ltnS.
apply: (@le_trans _ _ (\sum_(x : {ffun I -> 'I_(#|I| * K).+1} | (tsum x < (#|I| * K).+1)%N)
    \prod_c share al I z (x c))); last first.
  by rewrite shares_below // ler_subl_addr ler_addl exprn_ge0.
have -> : \sum_(x : {ffun I -> 'I_K.+1}) \prod_c share al I z (x c) =
    \sum_(x in [set h y | y in predT]) \prod_c share al I z (x c).
  rewrite big_imset //=; apply: eq_bigr => x _; apply: eq_bigr => c _; by rewrite ffunE.
rewrite [X in _ <= X](bigID (mem [set h y | y in predT])) /= -[X in X <= _]addr0 ler_add //.
  rewrite le_eqVlt; apply/orP; left; apply/eqP; apply: eq_bigl => x.
  by apply/idP/andP => [hx|[] //]; split=> //; case/imsetP: hx => y _ ->.
by apply: sumr_ge0 => x _.
Qed.
End Mass.

Section Laplace.
Variables (F : realFieldType) (al : F).
Hypotheses (al_ge0 : 0 <= al) (al_lt1 : al < 1).
Implicit Types (k s : int).

Definition laplace k : F := (1 - al) / (1 + al) * al ^+ absz k.

Lemma plus_neq0 : 1 + al != 0.
Proof. by rewrite gt_eqF // ltr_paddr ?ltr01. Qed.

Lemma geometric_pairs m J :
  \sum_(b < J) geometric al (b + m) * geometric al b = laplace (Posz m) * (1 - al ^+ (2 * J)).
Proof.
have e : (1 - al ^+ (2 * J)) = (1 - al) * (1 + al) * \sum_(b < J) al ^+ (2 * b).
  have -> : (1 - al) * (1 + al) = 1 - al ^+ 2 by rewrite -[1 in RHS](expr1n _ 2) subr_sqr.
  rewrite exprM -[LHS]opprB subrX1 -mulNr opprB; congr (_ * _).
  by apply: eq_bigr => b _; rewrite exprM.
rewrite e /laplace /=; set X := \sum_(b < J) al ^+ (2 * b).
have -> : (1 - al) / (1 + al) * al ^+ m * ((1 - al) * (1 + al) * X) =
    (1 - al) * (1 - al) * al ^+ m * X.
  rewrite [_ / _ * al ^+ m]mulrAC [(1 - al) * (1 + al)]mulrC -[(1 + al) * _ * X]mulrA.
  by rewrite [LHS]mulrA divfK ?plus_neq0 // mulrACA mulrA.
rewrite mulr_sumr; apply: eq_bigr => b _; rewrite /geometric mulrACA -[RHS]mulrA; congr (_ * _).
by rewrite -!exprD mul2n -addnn addnA [(m + b)%N]addnC.
Qed.

(* Two geometric variables below N. *)
Theorem laplace_difference k N : (absz k <= N)%N ->
  \sum_(a < N) \sum_(b < N | Posz a - Posz b == k) geometric al a * geometric al b =
  laplace k * (1 - al ^+ (2 * (N - absz k))).
Proof.
have pos m : (m <= N)%N ->
    \sum_(a < N) \sum_(b < N | Posz a - Posz b == Posz m) geometric al a * geometric al b =
    laplace (Posz m) * (1 - al ^+ (2 * (N - m))).
  move=> hm; rewrite -geometric_pairs (exchange_big_dep xpredT) //=.
  have hN : N = (N - m + m)%N by rewrite subnK.
  transitivity (\sum_(b < N | (b < N - m)%N) geometric al (b + m) * geometric al b).
    rewrite [RHS]big_mkcond; apply: eq_bigr => b _; case: ifP => hb.
      have hbm : (b + m < N)%N by rewrite [X in (_ < X)%N]hN ltn_add2r.
      rewrite (big_pred1 (Ordinal hbm)) // => a.
      rewrite /= subr_eq -PoszD eqz_nat addnC; apply/eqP/eqP => [e|-> //].
      exact: val_inj.
    rewrite big_pred0 // => a; apply/negbTE; rewrite subr_eq -PoszD eqz_nat.
    apply: contraFN hb => /eqP e; have := ltn_ord a; rewrite e => h.
    by rewrite ltn_subRL.
  by rewrite (big_ord_widen N (fun b => geometric al (b + m) * geometric al b)) ?leq_subr.
case: k => [m|m]; first exact: pos.
rewrite NegzE abszN => hm; rewrite -(pos _ hm) (exchange_big_dep xpredT) //=; apply: eq_bigr => a _.
apply: eq_big => [b|b _]; last by rewrite mulrC.
by rewrite -eqr_oppLR opprB.
Qed.

Lemma laplace_gt0 k : 0 < al -> 0 < laplace k.
Proof.
move=> a0; apply: mulr_gt0; last exact: exprn_gt0.
by apply: divr_gt0; rewrite ?subr_gt0 // ltr_paddr ?ltr01.
Qed.

(* What a shift by s costs. *)
Theorem laplace_ratio k s : al ^+ absz s * laplace k <= laplace (k + s).
Proof.
rewrite /laplace mulrCA ler_wpmul2l //.
  by apply: divr_ge0; rewrite ?subr_ge0 ?(ltW al_lt1) // addr_ge0 ?ler01.
rewrite -exprD ler_wiexpn2l ?(ltW al_lt1) // addnC.
by rewrite -lez_nat PoszD !abszE ler_norm_add.
Qed.

(* Shares of n users for each sign, both sums below N. *)
Variables (z : F) (I : finType).
Hypotheses (hz : z ^+ #|I| = 1 - al) (I_gt0 : (0 < #|I|)%N).

Theorem laplace_shares k N : (absz k <= N.+1)%N ->
  \sum_(x : {ffun I -> 'I_N.+1} | (tsum x < N.+1)%N)
    \sum_(y : {ffun I -> 'I_N.+1} | (tsum y < N.+1)%N && (Posz (tsum x) - Posz (tsum y) == k))
      \prod_c (share al I z (x c) * share al I z (y c)) =
  laplace k * (1 - al ^+ (2 * (N.+1 - absz k))).
Proof.
move=> hk; rewrite -(laplace_difference hk).
pose W (x : {ffun I -> 'I_N.+1}) := \prod_c share al I z (x c).
pose h a := \sum_(b < N.+1 | Posz a - Posz b == k) geometric al b.
have hW a : (a < N.+1)%N -> \sum_(x | tsum x == a) W x = geometric al a.
  by move=> ha; rewrite polya_shares.
transitivity (\sum_(x | (tsum x < N.+1)%N) W x * h (tsum x)).
  apply: eq_bigr => x _; rewrite /h.
  transitivity (W x * \sum_(y | (tsum y < N.+1)%N) W y * (Posz (tsum x) - Posz (tsum y) == k)%:R).
    rewrite mulr_sumr big_mkcondr; apply: eq_bigr => y _.
    by rewrite big_split /= -/(W x) -/(W y); case: eqP => _; rewrite ?mulr1 // !mulr0.
  congr (_ * _); rewrite (sum_by_total W (fun b => (Posz (tsum x) - Posz b == k)%:R)).
  rewrite [RHS]big_mkcond; apply: eq_bigr => b _; rewrite hW //.
  by case: eqP => _; rewrite ?mulr1 ?mulr0.
rewrite (sum_by_total W h); apply: eq_bigr => a _; rewrite hW // /h mulr_sumr.
by apply: eq_bigr.
Qed.
End Laplace.
