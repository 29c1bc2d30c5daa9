(* Any number of users without a long recursion: the lemma on compositions, and what follows. *)
From Coq Require Import NArith.
From mathcomp Require Import all_ssreflect all_fingroup all_algebra.
From Ikos Require Import Graph Shuffle NoClear Colour Recursion Instances Numbers Certificate Dyadic Kinds Rounded Large.
Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.
Import Order.TTheory GRing.Theory Num.Theory GroupScope.
Local Open Scope ring_scope.

Section Compositions.
Variables (phi : nat -> rat) (n : nat).
Hypothesis phi_gt0 : forall k, 0 < phi k.
Hypothesis rise_mono : forall k, rise phi k <= rise phi k.+1.

(* The sum of phi_(s_1) ... phi_(s_c) over the compositions of k <= n into c positive parts. *)
Definition compositions c k : rat := (Lp n phi ^+ c)`_k.

Lemma compositions0 k : compositions 0 k = (k == 0%N)%:R.
Proof. by rewrite /compositions expr0 coef1. Qed.

Lemma compositionsS c k : (k <= n)%N ->
  compositions c.+1 k = \sum_(1 <= s < k.+1) phi s * compositions c (k - s)%N.
Proof. by move=> hk; rewrite /compositions exprS LM. Qed.

Lemma compositions_small c k : (k <= n)%N -> (k < c)%N -> compositions c k = 0.
Proof.
elim: c k => // c IH k hk hc; rewrite compositionsS // big_nat_cond big1 // => s /andP [/andP [s0 hs] _].
have h : (k - s < c)%N by rewrite ltn_subLR // (leq_trans hc) // -add1n leq_add2r.
by rewrite IH ?mulr0 // (leq_trans (leq_subr _ _)).
Qed.

Lemma compositions_ge0 c k : (k <= n)%N -> 0 <= compositions c k.
Proof.
elim: c k => [|c IH] k hk; first by rewrite compositions0 ler0n.
rewrite compositionsS // big_nat_cond sumr_ge0 // => s _.
by rewrite mulr_ge0 ?(ltW (phi_gt0 _)) // IH // (leq_trans (leq_subr _ _)).
Qed.

Lemma compositions_diagonal c : (c <= n)%N -> compositions c c = phi 1 ^+ c.
Proof.
elim: c => [|c IH] hc; first by rewrite compositions0 expr0.
rewrite compositionsS // big_ltn // subSS subn0 IH ?(ltnW hc) // -exprS.
rewrite big_nat_cond big1 ?addr0 // => s /andP [/andP [s0 hs] _].
rewrite compositions_small ?mulr0 //; first exact: leq_trans (leq_subr _ _) hc.
by rewrite ltn_subLR // addnC -ltn_subLR // subSnn.
Qed.

Lemma pairs k : \sum_(1 <= s < k.+1) phi s * phi (k.+2 - s)%N <= 3%:R * phi 1 * phi k.+1.
Proof.
have z0 s : 0 <= phi s by apply: ltW.
case: k => [|k]; first by rewrite big_geq // !mulr_ge0 ?ler0n.
rewrite big_ltn // subSS subn0.
have h s : (2 <= s < k.+2)%N -> phi s * phi (k.+3 - s)%N <= phi 2 * phi k.+1.
  move=> hs; have := @middle_leq phi 2 phi_gt0 rise_mono s k.+3; rewrite !subSS subn0; apply.
  by rewrite -ltnS.
apply: le_trans (_ : phi 1 * phi k.+2 + \sum_(2 <= s < k.+2) phi 2 * phi k.+1 <= _).
  by rewrite ler_add2l ler_sum_nat.
rewrite sumr_const_nat subSS subSS subn0.
have -> : 3%:R * phi 1 * phi k.+2 = phi 1 * phi k.+2 + 2%:R * (phi 1 * phi k.+2).
  by rewrite -mulrA -[X in _ = X + _]mul1r -mulrDl.
rewrite ler_add2l -[_ *+ k]mulr_natl.
have e j : phi j.+1 = ratio phi j * phi j by rewrite /ratio divfK ?lt0r_neq0.
pose X := phi 1 * phi k.+1; have X0 : 0 <= X by rewrite mulr_ge0.
have -> : k%:R * (phi 2 * phi k.+1) = k%:R * 2%:R * rise phi 1 * X.
  by rewrite (e 1%N) ratioE // /X -!mulrA.
have -> : 2%:R * (phi 1 * phi k.+2) = k.+2%:R * 2%:R * rise phi k.+1 * X.
  have alg (u v w r x : rat) : u * (x * (v * r * w)) = v * u * r * (x * w).
    by rewrite [x * _]mulrCA !mulrA [u * v]mulrC.
  by rewrite (e k.+1) ratioE // alg.
have r0 j : 0 <= rise phi j by apply/ltW/rise_gt0.
rewrite ler_wpmul2r //; apply: ler_pmul; [by rewrite mulr_ge0 ?ler0n|exact: r0| |exact: rise_leq].
by rewrite ler_wpmul2r ?ler0n // ler_nat ltnW.
Qed.

(* The lemma on Q_c, for any weights. *)
Lemma compositions_leq c k : (c < k)%N -> (k <= n)%N ->
  compositions c.+1 k <= c.+1%:R * (3%:R * phi 1) ^+ c * phi (k - c)%N.
Proof.
have z0 s : 0 <= phi s by apply: ltW.
have t0 : 0 <= 3%:R * phi 1 by rewrite mulr_ge0 ?ler0n.
elim: c k => [|c IH] k hc hk.
  rewrite compositionsS // expr0 !mul1r subn0 (bigD1_seq k) ?mem_index_iota ?iota_uniq ?hc //=.
  rewrite subnn compositions0 eqxx mulr1 big_nat_cond big1 ?addr0 // => s /andP [/andP [s0 hs] hsk].
  by rewrite compositions0 subn_eq0 leqNgt ltn_neqAle hsk -ltnS hs mulr0.
have [N hN] : exists N, k = (c + N.+2)%N by exists (k - c.+2)%N; rewrite !addnS -!addSn subnKC.
have kc : (k - c.+1 = N.+1)%N by rewrite hN -addSnnS addKn.
have kN : (k - N.+1 = c.+1)%N by rewrite hN addnS -addSn addnK.
rewrite compositionsS // (big_cat_nat _ _ _ (_ : 1 <= N.+2)%N (_ : N.+2 <= k.+1)%N) //=; last first.
  by rewrite leqW // hN leq_addl.
have -> : \sum_(N.+2 <= s < k.+1) phi s * compositions c.+1 (k - s)%N = 0.
  rewrite big_nat_cond big1 // => s /andP [/andP [s0 hs] _].
  rewrite compositions_small ?mulr0 //; first exact: leq_trans (leq_subr _ _) hk.
  rewrite ltnS in hs; by rewrite ltn_subLR // hN [(s + _)%N]addnC addSn ltnS leq_add2l.
rewrite addr0 big_nat_recr //= kN compositions_diagonal; last exact: leq_trans (ltnW hc) hk.
have -> : c.+2%:R * (3%:R * phi 1) ^+ c.+1 * phi (k - c.+1)%N =
    c.+1%:R * (3%:R * phi 1) ^+ c * (3%:R * phi 1 * phi N.+1) + phi N.+1 * (3%:R * phi 1) ^+ c.+1.
  rewrite kc -[c.+2]addn1 natrD mulrDl mulrDl mul1r [phi N.+1 * _]mulrC; congr (_ + _).
  by rewrite exprSr !mulrA.
rewrite ler_add //; last by rewrite ler_wpmul2l // ler_expn2r ?nnegrE // ler_pmull // ler1n.
have K0 : 0 <= c.+1%:R * (3%:R * phi 1) ^+ c by rewrite mulr_ge0 ?ler0n ?exprn_ge0.
apply: le_trans (_ : \sum_(1 <= s < N.+1) c.+1%:R * (3%:R * phi 1) ^+ c * (phi s * phi (N.+2 - s)%N) <= _).
  rewrite ler_sum_nat // => s /andP [s0 hs]; rewrite mulrCA ler_wpmul2l //.
  have hs2 : (s <= N.+2)%N by apply: leq_trans (ltnW hs) _; rewrite ltnW.
  have -> : (N.+2 - s = k - s - c)%N by rewrite -subnDA addnC subnDA hN addKn.
  apply: IH; last exact: leq_trans (leq_subr _ _) hk.
  by rewrite ltn_subRL hN addnC -addnS leq_add2l (leq_trans hs).
by rewrite -mulr_sumr ler_wpmul2l // pairs.
Qed.

Lemma compositions_derivative c k : (k <= n)%N ->
  k%:R * compositions c.+1 k = c.+1%:R * \sum_(1 <= s < k.+1) s%:R * phi s * compositions c (k - s)%N.
Proof.
move=> hk; case: k hk => [|k] hk; first by rewrite mul0r big_geq ?mulr0.
have -> : k.+1%:R * compositions c.+1 k.+1 = ('X * (Lp n phi ^+ c.+1)^`())`_k.+1.
  by rewrite coefXM /= coef_deriv mulr_natl.
rewrite deriv_exp /= mulrnAr coefMn -mulr_natl mulrA; congr (_ * _).
have -> : 'X * (Lp n phi)^`() = Lp n (fun s => s%:R * phi s).
  apply/polyP => s; rewrite coefXM; case: s => [|s] /=; first by rewrite coef_poly.
  by rewrite coef_deriv !coef_poly; case: ifP => _; rewrite ?mul0rn // mulr_natl.
by rewrite LM.
Qed.
End Compositions.

Section Bound.
Variables (phi l a : nat -> rat) (q : rat) (n : nat).
Hypothesis phi_gt0 : forall k, 0 < phi k.
Hypothesis rise_mono : forall k, rise phi k <= rise phi k.+1.
Hypothesis l_bounds : forall k, (0 < k)%N -> 0 <= l k <= k%:R * phi k.
Hypothesis q_ge0 : 0 <= q.
Hypothesis a_ge0 : forall k, (k <= n)%N -> 0 <= a k.
Hypothesis a0 : a 0%N = 1.
Hypothesis ha : forall k, (0 < k <= n)%N ->
  k%:R * a k = q * \sum_(1 <= s < k.+1) l s * a (k - s)%N.

Let z0 s : 0 <= phi s. Proof. exact: ltW. Qed.
Let fact_gt s : (0 : rat) < (s`!)%:R. Proof. by rewrite ltr0n fact_gt0. Qed.

(* E[q^C] by the number of unions of components: log F <= F - 1. *)
Lemma moment_compositions k : (k <= n)%N ->
  a k <= \sum_(0 <= c < k.+1) q ^+ c / (c`!)%:R * compositions phi n c k.
Proof.
elim/ltn_ind: k => -[|k] IH hk.
  by rewrite big_nat1 a0 expr0 divr1 mul1r compositions0.
have k0 : (0 : rat) < k.+1%:R by rewrite ltr0n.
rewrite big_ltn // compositions0 mulr0 add0r big_add1 /=.
rewrite -(ler_pmul2l k0) ha // [X in _ <= X]mulr_sumr.
apply: (@le_trans _ _ (q * \sum_(1 <= s < k.+2) s%:R * phi s *
    (\sum_(0 <= c < k.+1) q ^+ c / (c`!)%:R * compositions phi n c (k.+1 - s)%N))).
  rewrite ler_wpmul2l // ler_sum_nat // => s /andP [s0 hs].
  have /andP [l0 l1] := l_bounds s0; have hn : (k.+1 - s <= n)%N := leq_trans (leq_subr _ _) hk.
  apply: ler_pmul => //; first exact: a_ge0.
  apply: le_trans (IH _ _ hn) _; first by rewrite ltn_subrL s0.
  have hsk : ((k.+1 - s).+1 <= k.+1)%N by rewrite -(prednK s0) subSS ltnS leq_subr.
  rewrite [X in _ <= X](big_cat_nat _ _ _ _ hsk) //= ler_paddr // big_nat_cond sumr_ge0 // => c _.
  by rewrite mulr_ge0 ?divr_ge0 ?exprn_ge0 ?ler0n ?compositions_ge0.
have -> : \sum_(0 <= c < k.+1) k.+1%:R * (q ^+ c.+1 / (c.+1`!)%:R * compositions phi n c.+1 k.+1) =
    \sum_(0 <= c < k.+1) q * (q ^+ c / (c`!)%:R *
      \sum_(1 <= s < k.+2) s%:R * phi s * compositions phi n c (k.+1 - s)%N).
  apply: eq_bigr => c _; rewrite mulrCA compositions_derivative // factS natrM exprS.
  have c0 : c.+1%:R != 0 :> rat by rewrite pnatr_eq0.
  have alg (x y u v t : rat) : u != 0 -> x * y / (u * v) * (u * t) = x * (y / v * t).
    by move=> u0; rewrite invfM [u^-1 * _]mulrC -!mulrA mulKf.
  exact: alg.
rewrite -mulr_sumr; under eq_bigr => s _ do rewrite mulr_sumr.
rewrite exchange_big /= ler_wpmul2l // ler_sum // => c _.
by rewrite mulr_sumr ler_sum // => s _; rewrite mulrCA.
Qed.

(* The terms of c + 1 components, of which c are single users. *)
Definition coefficient c : rat := q ^+ c.+1 * (3%:R * phi 1) ^+ c / (c`!)%:R.
Definition term c k : rat := coefficient c * phi (k - c)%N.

Lemma coefficient_ge0 c : 0 <= coefficient c.
Proof. by rewrite !mulr_ge0 ?invr_ge0 ?exprn_ge0 ?mulr_ge0 ?ler0n. Qed.

Lemma term_ge0 c k : 0 <= term c k.
Proof. exact: mulr_ge0 (coefficient_ge0 _) (z0 _). Qed.

Lemma coefficientS c : coefficient c.+1 * c.+1%:R = coefficient c * (3%:R * q * phi 1).
Proof.
have c0 : c.+1%:R != 0 :> rat by rewrite pnatr_eq0.
have alg (x f w : rat) : w != 0 -> x / (w * f) * w = x / f.
  by move=> w0; rewrite invfM [w^-1 * _]mulrC mulrA mulfVK.
rewrite /coefficient factS natrM alg //.
rewrite [q ^+ c.+2]exprS [(3%:R * phi 1) ^+ c.+1]exprS [q * _ * _]mulrACA [RHS]mulrC !mulrA.
by rewrite [q * 3%:R]mulrC.
Qed.

Lemma moment_terms k : (0 < k <= n)%N -> a k <= \sum_(0 <= c < k) term c k.
Proof.
case/andP => k0 hk; apply: le_trans (moment_compositions hk) _.
rewrite big_ltn // compositions0 eqn0Ngt k0 mulr0 add0r big_add1 /= ler_sum_nat // => c /andP [_ hc].
apply: le_trans (_ : q ^+ c.+1 / (c.+1`!)%:R *
    (c.+1%:R * (3%:R * phi 1) ^+ c * phi (k - c)%N) <= _).
  by rewrite ler_wpmul2l ?divr_ge0 ?exprn_ge0 ?ler0n // compositions_leq.
have c0 : c.+1%:R != 0 :> rat by rewrite pnatr_eq0.
have alg (x f w t p : rat) : w != 0 -> x / (w * f) * (w * t * p) = x * t / f * p.
  by move=> w0; rewrite invfM [w^-1 * _]mulrC -!mulrA mulKf // [_^-1 * _]mulrCA.
by rewrite factS natrM alg.
Qed.

(* Beyond z users a single user is rare; 8 z users are mostly connected. *)
Variables (V : rat) (z : nat).
Hypothesis phi0 : phi 0%N = 1.
Hypothesis q_gt0 : 0 < q.
Hypothesis V_ge2 : 2%:R <= V.
Hypothesis rare : 6%:R * q * phi 1 * V <= ratio phi z.
Hypothesis root : 3%:R * q <= V ^+ 6.

Let V_ge1 : 1 <= V. Proof. by apply: le_trans V_ge2; rewrite ler1n. Qed.
Let V_ge0 : 0 <= V. Proof. by apply: le_trans V_ge1. Qed.
Let two_V_ge0 : 0 <= 2%:R * V. Proof. by rewrite mulr_ge0 ?ler0n. Qed.

Lemma term_ratio c k W : (c < k)%N -> W * (3%:R * q * phi 1) <= ratio phi (k - c.+1) ->
  term c.+1 k * W <= term c k.
Proof.
move=> hc hW; have x0 : 0 < 3%:R * q * phi 1 by rewrite !mulr_gt0 ?ltr0n.
rewrite -(ler_pmul2r x0); have := ler_wpmul2l (term_ge0 c.+1 k) hW; rewrite [X in X <= _]mulrA => h.
apply: le_trans h _.
apply: (@le_trans _ _ (term c.+1 k * ratio phi (k - c.+1) * c.+1%:R)).
  by rewrite ler_pemulr ?ler1n // mulr_ge0 ?term_ge0 // ltW // ratio_gt0.
have e : phi (k - c)%N = phi (k - c.+1)%N * ratio phi (k - c.+1).
  by rewrite /ratio mulrC divfK ?lt0r_neq0 // subnSK.
rewrite le_eqVlt; apply/orP; left; apply/eqP.
by rewrite /term e -[_ * phi _ * _]mulrA mulrAC coefficientS mulrAC.
Qed.

Lemma near c k : (c.+1 + z <= k)%N -> term c.+1 k * (2%:R * V) <= term c k.
Proof.
move=> h; have hc : (c < k)%N by apply: leq_trans h; rewrite leq_addr.
apply: term_ratio => //; apply: le_trans (_ : ratio phi z <= _); last first.
  by apply: ratio_leq => //; rewrite leq_subRL.
apply: le_trans rare; rewrite le_eqVlt; apply/orP; left; apply/eqP.
have -> : 6%:R = 2%:R * 3%:R :> rat by rewrite -natrM.
by rewrite mulrAC !mulrA.
Qed.

Lemma far c k : (c < k)%N -> term c.+1 k <= V ^+ 6 * term c k.
Proof.
move=> hc; have W0 : 0 < 3%:R * q by rewrite mulr_gt0 ?ltr0n.
apply: (@le_trans _ _ (3%:R * q * term c k)); last by rewrite ler_wpmul2r ?term_ge0.
rewrite -ler_pdivr_mull // mulrC; apply: term_ratio => //.
rewrite mulKf ?lt0r_neq0 //; apply: le_trans (ratio_leq phi_gt0 rise_mono (leq0n _)).
by rewrite /ratio phi0 divr1.
Qed.

Lemma decays c i k : (c + i + z <= k)%N -> term (c + i) k * (2%:R * V) ^+ i <= term c k.
Proof.
elim: i => [|i IH] h; first by rewrite addn0 expr0 mulr1.
rewrite addnS in h *; apply: le_trans (IH _); last by apply: leq_trans h; rewrite addSn.
by rewrite exprS mulrA ler_wpmul2r ?exprn_ge0 // near.
Qed.

Lemma grows c i k : (c + i <= k)%N -> term (c + i) k <= V ^+ (6 * i) * term c k.
Proof.
elim: i => [|i IH] h; first by rewrite addn0 muln0 expr0 mul1r.
rewrite addnS in h *; apply: le_trans (far h) _.
by rewrite mulnS exprD -mulrA ler_wpmul2l ?exprn_ge0 // IH // ltnW.
Qed.

Lemma geometric c i k : (c + 8 * z <= k)%N -> (c + i < k)%N -> term (c + i) k * 2%:R ^+ i <= term c k.
Proof.
move=> hk hi; case: (leqP (c + i + z) k) => h.
  apply: le_trans (decays h); rewrite ler_wpmul2l ?term_ge0 // ler_expn2r ?nnegrE ?ler0n //.
  by rewrite ler_pemulr ?ler0n.
have hz : (z + 7 * z = 8 * z)%N by rewrite -mulSn.
pose d := (k - (c + z))%N; pose j := (i - d)%N.
have hcz : (c + z <= k)%N by apply: leq_trans hk; rewrite leq_add2l -hz leq_addr.
have hd : (c + d + z = k)%N by rewrite addnAC subnKC.
have d7 : (7 * z <= d)%N by rewrite -(leq_add2l (c + z)) subnKC // -addnA hz.
have hdi : (d <= i)%N by rewrite -(leq_add2l (c + z)) subnKC // addnAC ltnW.
have hj : (d + j = i)%N by rewrite subnKC.
have jz : (j <= z)%N.
  by rewrite ltnW // -(ltn_add2l (c + d)) -addnA hj hd.
have h1 : term (c + i) k <= V ^+ (6 * j) * term (c + d) k.
  by rewrite -hj addnA grows // -addnA hj ltnW.
have h2 : term (c + d) k * (2%:R * V) ^+ d <= term c k by rewrite decays // hd.
apply: le_trans h2; rewrite -hj exprD.
apply: (@le_trans _ _ (V ^+ (6 * j) * term (c + d) k * (2%:R ^+ d * 2%:R ^+ j))).
  by rewrite hj ler_wpmul2r // mulr_ge0 ?exprn_ge0 ?ler0n.
rewrite [V ^+ _ * _]mulrC -mulrA ler_wpmul2l ?term_ge0 // exprMn mulrCA ler_wpmul2l ?exprn_ge0 ?ler0n //.
apply: (@le_trans _ _ (V ^+ (6 * j) * V ^+ j)).
  by rewrite ler_wpmul2l ?exprn_ge0 // ler_expn2r ?nnegrE ?ler0n.
by rewrite -exprD -mulSnr ler_weexpn2l // (leq_trans _ d7) // leq_mul2l.
Qed.

Lemma tail c k : (c + 8 * z <= k)%N -> \sum_(c <= s < k) term s k <= 2%:R * term c k.
Proof.
move=> hk; have hck : (c <= k)%N by apply: leq_trans hk; rewrite leq_addr.
rewrite -{1}[c]add0n big_addn; set y := term c k.
have y0 : 0 <= y by apply: term_ge0.
have p0 i : (0 : rat) < 2%:R ^+ i by rewrite exprn_gt0 ?ltr0n.
suff h j : (j <= k - c)%N -> \sum_(0 <= i < j) term (i + c) k <= y * (2%:R - 2%:R / 2%:R ^+ j).
  apply: le_trans (h _ (leqnn _)) _; rewrite mulrC ler_wpmul2r // ler_subl_addr ler_addl.
  by rewrite divr_ge0 ?ler0n // ltW.
elim: j => [|j IH] hj; first by rewrite big_geq // expr0 divr1 subrr mulr0.
have e : 2%:R - 2%:R / 2%:R ^+ j.+1 = 2%:R - 2%:R / 2%:R ^+ j + (2%:R ^+ j)^-1 :> rat.
  rewrite exprS invfM mulrA divff ?pnatr_eq0 // mul1r -addrA; congr (_ + _).
  by rewrite mulr_natl mulr2n opprD -addrA addNr addr0.
rewrite big_nat_recr //= e mulrDr; apply: ler_add; first exact: IH (ltnW hj).
by rewrite ler_pdivl_mulr // addnC geometric // -ltn_subRL.
Qed.

Lemma connected_moment k : (0 < k <= n)%N -> (8 * z <= k)%N -> a k <= 2%:R * q * phi k.
Proof.
move=> hk h8; apply: le_trans (moment_terms hk) _; apply: le_trans (tail _) _; first by rewrite add0n.
by rewrite /term /coefficient subn0 fact0 divr1 expr0 mulr1 expr1 mulrA.
Qed.

Variable J : nat.
Hypotheses (J_gt0 : (0 < J)%N) (hn : (J.+1 + 8 * z <= n)%N).

(* Bounds of the first moments are enough. *)
Definition first k : rat := head phi a (2%:R * q) J k +
  k%:R * ((\sum_(0 <= c < J) term c J) * fall phi k J + 2%:R * phi 1 * coefficient J * fall phi k J.+1).

Theorem first_sound k : (J < k <= n)%N ->
  (\sum_(1 <= s < n) l s * a (n - s)%N) / (n%:R * phi n) <= first k.
Proof.
case/andP => hJk hkn; have Jn : (J < n)%N := leq_trans hJk hkn.
have M0 : 0 <= 2%:R * q by rewrite mulr_ge0 ?ler0n.
have side0 : 0 <= 2%:R * phi 1 * coefficient J := mulr_ge0 (mulr_ge0 (ler0n _ _) (z0 _)) (coefficient_ge0 _).
have inner0 : 0 <= \sum_(0 <= c < J) term c J.
  by rewrite big_nat_cond sumr_ge0 // => c _; apply: term_ge0.
apply: (@le_trans _ _ (first n)); last first.
  rewrite /first; apply: ler_add; first exact: (head_leq phi_gt0 rise_mono M0 a_ge0 J_gt0 (ltnW Jn) (ltnW hJk) hkn).
  rewrite !mulrDr; apply: ler_add; rewrite mulrCA [X in _ <= X]mulrCA; apply: ler_wpmul2l.
  - exact: inner0.
  - by apply: scaled_fall_leq => //; apply: ltnW.
  - exact: side0.
  exact: scaled_fall_leq.
pose Y := (\sum_(0 <= c < J) term c J) * phi (n - J)%N + 2%:R * phi 1 * coefficient J * phi (n - J.+1)%N.
have Y0 : 0 <= Y := addr_ge0 (mulr_ge0 inner0 (z0 _)) (mulr_ge0 side0 (z0 _)).
have -> : first n = head phi a (2%:R * q) J n + n%:R * (Y / phi n).
  by rewrite /first /fall /Y mulrDl !mulrA.
have hJn : (J <= n <= n)%N by rewrite leqnn ltnW.
apply: (step_by phi_gt0 l_bounds M0 a_ge0 J_gt0 hJn Y0).
  move=> s /andP [s0 hs] hJs; apply: connected_moment.
    by rewrite subn_gt0 (ltn_trans hs Jn) leq_subr.
  by rewrite leq_subRL ?(leq_trans (ltnW hs) (ltnW Jn)) // (leq_trans _ hn) // leq_add2r leqW // ltnW.
move=> s /andP [h1 h2]; have hsn : (s < n)%N.
  by apply: leq_ltn_trans h2 _; rewrite ltn_subrL J_gt0 (leq_ltn_trans _ Jn).
have hJs : (J <= n - s)%N := leq_swap (ltnW Jn) h2.
have hk : (0 < n - s <= n)%N by rewrite subn_gt0 hsn leq_subr.
apply: (@le_trans _ _ (\sum_(0 <= c < n - s) phi s * term c (n - s))).
  by rewrite -mulr_sumr ler_wpmul2l // moment_terms.
rewrite (big_cat_nat _ _ _ (leq0n _) hJs) /=; apply: ler_add.
  rewrite mulr_suml ler_sum_nat // => c /andP [_ hc].
  rewrite /term mulrCA -mulrA ler_wpmul2l ?coefficient_ge0 //.
  have hcn : (c <= n)%N := leq_trans (ltnW hc) (ltnW Jn).
  have := @middle_leq phi (J - c) phi_gt0 rise_mono s (n - c).
  rewrite -!subnDA subnKC ?(ltnW hc) // [(c + s)%N]addnC; apply.
  by rewrite h2 (leq_trans (leq_subr _ _) h1).
have h1n : (n - s <= n - 1)%N by rewrite leq_sub2l // (leq_trans J_gt0).
apply: (@le_trans _ _ (\sum_(J <= c < n - 1) phi 1 * term c (n - 1))).
  rewrite [X in _ <= X](big_cat_nat _ _ _ hJs h1n) /=; apply: ler_paddr.
    by rewrite big_nat_cond sumr_ge0 // => c _; rewrite mulr_ge0 ?term_ge0.
  rewrite ler_sum_nat // => c /andP [_ hc].
  rewrite /term mulrCA [X in _ <= X]mulrCA ler_wpmul2l ?coefficient_ge0 //.
  have := @middle_leq phi 1 phi_gt0 rise_mono s (n - c).
  rewrite -!subnDA [(c + s)%N]addnC [(c + 1)%N]addnC; apply.
  have hcs : (s + c < n)%N by rewrite -ltn_subRL.
  rewrite (leq_trans J_gt0) //= leq_subRL; first by rewrite add1n addSn addnC.
  by rewrite add1n (leq_trans _ hcs) // ltnS leq_addl.
have h8 : (J + 8 * z <= n - 1)%N.
  by rewrite leq_subRL ?add1n // (leq_ltn_trans _ Jn).
have -> : 2%:R * phi 1 * coefficient J * phi (n - J.+1)%N = phi 1 * (2%:R * term J (n - 1)).
  by rewrite /term -subnDA add1n [2%:R * phi 1]mulrC -[_ * coefficient J * _]mulrA -mulrA.
by rewrite -mulr_sumr ler_wpmul2l // tail.
Qed.
End Bound.

Local Close Scope ring_scope.

Section Evaluation.
(* Bits of a mantissa, bits of the scale. *)
Variables (p S : N) (num den : N -> N) (q : N).

(* [:: coefficient c; ...; coefficient (c+j)] from the first *)
Fixpoint coefficients (F1 x : dyadic) c j : seq dyadic :=
  x :: if j is i.+1 then
    coefficients F1 (div true (mul true p x (mul true p (whole (N.mul 3 q)) F1)) (bin_of_nat c.+1)) c.+1 i
  else [::].

(* 2^S first k *)
Definition first_up k J (A F : seq dyadic) : dyadic :=
  let bs := falls p num den (1%num, S) k J.+1 in
  let us := coefficients (nth zero F 0) (whole q) 0 J in
  add true (head_up p (N.mul 2 q) k J A F bs) (mul true p (whole k) (add true
    (mul true p (dot p true (rev (take J F)) us) (nth zero bs J.-1))
    (mul true p (mul true p (mul true p (whole 2) (nth zero F 0)) (nth zero us J)) (nth zero bs J)))).

Definition first_check (V z : N) (J : nat) (users mantissa shift : N) : bool :=
  let Fd := weights p num den false (whole 1) 1 J in let F := weights p num den true (whole 1) 1 J in
  let A := rev (moments p q (rev (logs p Fd F J).2) J) in
  let y := N.succ z in
  [&& N.leb 2 V, N.leb (N.mul 3 q) (power V 6),
   N.leb (N.mul (N.mul (N.mul (N.mul 6 q) (num 1%num)) V) (den y)) (N.mul (num y) (den 1%num)),
   N.leb (N.add (N.succ (bin_of_nat J)) (N.mul 8 z)) users &
   leb (first_up users J A F) shift (mantissa, S)].
End Evaluation.

Local Open Scope ring_scope.

Local Arguments bin_of_nat : simpl never.

Section Sound.
Variables (p S : N) (num den : N -> N) (q : N).
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
Hypothesis q_gt0 : (0 < nat_of_bin q)%N.

Notation Q := ((nat_of_bin q)%:R : rat).
Let z0 s : 0 <= phi s. Proof. exact: ltW. Qed.
Let Q0 : 0 <= Q. Proof. exact: ler0n. Qed.
Let T : rat := 2%:R ^+ nat_of_bin S.

Lemma coefficients_bounds F1 x c j i : bounds true F1 (phi 1) ->
  bounds true x (coefficient phi Q c) -> (i <= j)%N ->
  bounds true (nth zero (coefficients p q F1 x c j) i) (coefficient phi Q (c + i)).
Proof.
move=> hF; elim: j x c i => [|j IH] x c [|i] hx hi; rewrite ?addn0 //=.
rewrite addnS -addSn; apply: IH => //.
have -> : coefficient phi Q c.+1 =
    coefficient phi Q c * ((nat_of_bin (N.mul 3 q))%:R * phi 1) / (nat_of_bin (bin_of_nat c.+1))%:R.
  rewrite bin_of_natK nat_of_mul_bin natrM -coefficientS mulfK // pnatr_eq0 //.
apply: bounds_div; first by rewrite bin_of_natK.
have c0 := coefficient_ge0 phi_gt0 Q0 c.
apply: bounds_mul => //; first by rewrite mulr_ge0 ?ler0n.
by apply: bounds_mul; rewrite ?ler0n //; exact: bounds_whole.
Qed.

Lemma size_coefficients F1 x c j : size (coefficients p q F1 x c j) = j.+1.
Proof. by elim: j x c => //= j IH x c; rewrite IH. Qed.

Lemma first_bounds k J (A F : seq dyadic) : (0 < J)%N -> (J < nat_of_bin k)%N -> (J <= n)%N ->
  (forall j, (j < J)%N -> bounds true (nth zero A j) (a j)) ->
  (forall j, (j < J)%N -> bounds true (nth zero F j) (phi j.+1)) -> size F = J ->
  bounds true (first_up p S num den q k J A F) (T * first phi a Q J (nat_of_bin k)).
Proof.
move=> J0 hJ hn hA hF sF; have T0 : 0 <= T by rewrite exprn_ge0 // ler0n.
have hb i : (i < J.+1)%N -> bounds true (nth zero (falls p num den (1%num, S) k J.+1) i) (T * fall phi (nat_of_bin k) i.+1).
  by move=> hi; apply: (falls_scale p S phi_gt0 den_gt0 phiS); rewrite hi.
have f0 j : 0 <= fall phi (nat_of_bin k) j := fall_ge0 phi_gt0 _ _.
have c0 c := coefficient_ge0 phi_gt0 Q0 c.
have a_pos := a_ge0 (fun k k0 => proj1 (andP (l_bounds k0))) a0 ha.
have hu i : (i <= J)%N -> bounds true (nth zero (coefficients p q (nth zero F 0) (whole q) 0 J) i) (coefficient phi Q i).
  move=> hi; rewrite -[i in coefficient _ _ i]add0n; apply: coefficients_bounds => //; first exact: hF.
  by rewrite /coefficient expr1 expr0 fact0 mulr1 divr1; apply: bounds_whole.
rewrite /first_up /first [T * _]mulrDr; apply: bounds_add.
  have e : (nat_of_bin (N.mul 2 q))%:R = 2%:R * Q by rewrite nat_of_mul_bin natrM.
  rewrite -e; apply: (@head_bounds p S q (N.mul 2 q) phi l a phi_gt0 l_bounds a0 n ha k J A F _ J0 (ltnW hJ) hn hA hF).
    by move=> i hi; apply: hb; apply: ltnW.
  by rewrite size_falls leqnSn.
rewrite [T * _]mulrCA; set X := \sum_(0 <= c < J) _.
have X0 : 0 <= X by rewrite /X big_nat_cond sumr_ge0 // => c _; apply: mulr_ge0 (c0 _) (z0 _).
have s0 : 0 <= 2%:R * phi 1 * coefficient phi Q J := mulr_ge0 (mulr_ge0 (ler0n _ _) (z0 _)) (c0 _).
apply: bounds_mul; [exact: ler0n| |exact: bounds_whole|].
  exact: mulr_ge0 T0 (addr_ge0 (mulr_ge0 X0 (f0 _)) (mulr_ge0 s0 (f0 _))).
have tf j : 0 <= T * fall phi (nat_of_bin k) j := mulr_ge0 T0 (f0 j).
have hX : bounds true (dot p true (rev (take J F)) (coefficients p q (nth zero F 0) (whole q) 0 J)) X.
  have hs : size (rev (take J F)) = J by rewrite size_rev size_take_min sF minnn.
  have := @bounds_dot true p (rev (take J F)) (coefficients p q (nth zero F 0) (whole q) 0 J)
    (fun i => phi (J - i)%N) (fun i => coefficient phi Q i).
  rewrite hs; have -> : \sum_(i < J) phi (J - i)%N * coefficient phi Q i = X.
    by rewrite /X big_mkord; apply: eq_bigr => i _; rewrite /term mulrC.
  apply.
  - move=> i hi; split; first exact: z0.
    have sT : size (take J F) = J by rewrite size_take_min sF minnn.
    rewrite nth_rev sT // nth_take ?ltn_subrL ?J0 //.
    by rewrite -[X in phi X](subnSK hi); apply: hF; rewrite ltn_subrL J0.
  - by move=> i hi; split; [exact: c0|apply: hu; apply: ltnW].
  by rewrite size_coefficients.
rewrite [T * _]mulrDr; apply: bounds_add; rewrite [T * _]mulrCA; apply: bounds_mul.
- exact: X0.
- exact: tf.
- exact: hX.
- by have := hb J.-1; rewrite (prednK J0); apply; apply: leqnSn.
- exact: s0.
- exact: tf.
- apply: bounds_mul; [by rewrite mulr_ge0 ?ler0n|exact: c0| |exact: hu].
  by apply: bounds_mul; [exact: ler0n|exact: z0|exact: (bounds_whole true 2)|exact: hF].
exact: hb.
Qed.

Theorem first_check_sound V z J users mantissa shift : (0 < J)%N -> (nat_of_bin users <= n)%N ->
  first_check p S num den q V z J users mantissa shift ->
  (\sum_(1 <= s < n) l s * a (n - s)%N) / (n%:R * phi n) <= (nat_of_bin mantissa)%:R / 2%:R ^+ nat_of_bin shift.
Proof.
move=> J0 hn; rewrite /first_check; set Fd := weights _ _ _ _ _ _ _.
set F := weights _ _ _ _ _ _ _; set A := rev _.
case/and5P => /nat_of_le hV /nat_of_le hroot /nat_of_le hrare /nat_of_le hu small.
have hJu : (J.+1 + 8 * nat_of_bin z <= nat_of_bin users)%N.
  move: hu; rewrite nat_of_add_bin nat_of_mul_bin -N.add_1_l nat_of_add_bin bin_of_natK add1n.
  by [].
have hJ : (J < nat_of_bin users)%N by apply: leq_trans hJu; rewrite leq_addr.
have hJn : (J <= n)%N := leq_trans (ltnW hJ) hn.
have haJ k : (0 < k <= J)%N -> k%:R * a k = Q * \sum_(1 <= s < k.+1) l s * a (k - s)%N.
  by case/andP => k0 hk; apply: ha; rewrite k0 (leq_trans hk).
have l0 k : (0 < k)%N -> 0 <= l k by move=> k0; case/andP: (l_bounds k0).
have [sA hm] := moments_bounds p phi0 den_gt0 phiS hl l0 a0 haJ (leqnn J).
have hA j : (j < J)%N -> bounds true (nth zero A j) (a j).
  move=> hj; rewrite nth_rev sA ?ltnS ?(ltnW hj) // subSS -[X in a X](subKn (ltnW hj)); apply: hm.
  exact: leq_subr.
have hF j : (j < J)%N -> bounds true (nth zero F j) (phi j.+1).
  exact: (f_bounds p phi0 den_gt0 phiS).
have hup := first_bounds J0 hJ hJn hA hF (size_weights _ _ _ _ _ _ _).
have T1 : 0 < T by rewrite exprn_gt0 // ltr0n.
have a_pos := a_ge0 l0 a0 ha.
have Qp : 0 < Q by rewrite ltr0n.
have hV' : 2%:R <= (nat_of_bin V)%:R :> rat by rewrite ler_nat.
have hroot' : 3%:R * Q <= (nat_of_bin V)%:R ^+ 6.
  by rewrite -natrX -natrM ler_nat; move: hroot; rewrite nat_of_mul_bin power_nat.
have hrare' : 6%:R * Q * phi 1 * (nat_of_bin V)%:R <= ratio phi (nat_of_bin z).
  have hz : bin_of_nat (nat_of_bin z).+1 = N.succ z.
    by apply: nat_of_bin_inj; rewrite bin_of_natK -N.add_1_l nat_of_add_bin add1n.
  have d1 : (0 : rat) < (nat_of_bin (den 1%num))%:R by rewrite ltr0n den_gt0.
  have dz : (0 : rat) < (nat_of_bin (den (N.succ z)))%:R by rewrite ltr0n den_gt0 // -hz bin_of_natK.
  have -> : ratio phi (nat_of_bin z) = (nat_of_bin (num (N.succ z)))%:R / (nat_of_bin (den (N.succ z)))%:R.
    by rewrite /ratio phiS hz mulrAC mulfK ?lt0r_neq0.
  have -> : phi 1 = (nat_of_bin (num 1%num))%:R / (nat_of_bin (den 1%num))%:R by rewrite phiS phi0 mulr1.
  have alg (c x d v w : rat) : c * (x / d) * v * w = c * x * v * w / d.
    by rewrite mulrA [_ / _ * v]mulrAC [_ / _ * w]mulrAC.
  rewrite ler_pdivl_mulr // alg ler_pdivr_mulr // -!natrM ler_nat.
  by move: hrare; rewrite !nat_of_mul_bin.
apply: (@le_trans _ _ (first phi a Q J (nat_of_bin users))).
  apply: (first_sound phi_gt0 rises l_bounds Q0 a_pos a0 ha phi0 Qp hV' hrare' hroot' J0).
    exact: leq_trans hJu hn.
  by rewrite hJ.
rewrite ler_pdivl_mulr ?exprn_gt0 ?ltr0n // -(ler_pmul2l T1).
have := leb_val small; rewrite val_scaled -/T [_ * T]mulrC.
by apply: le_trans; rewrite mulrA ler_wpmul2r ?exprn_ge0 ?ler0n.
Qed.
End Sound.

(* Is E[q^(C-1); C >= 2] at most mantissa / 2^shift for this number of users and for every larger
   one, by the moments on at most J users? Beyond z users g is at least 6 q V, and V^6 >= 3 q. *)
Definition certified_any (p S : N) (one clear : bool) (m : nat) (q V z : N) (J : nat)
    (users mantissa shift : N) : bool :=
  [&& (~~ clear) + 1 < m, 0 < J &
   first_check p S (growth one m) (divisor clear) q V z J users mantissa shift]%N.

Section Certified.
Variables (p S : N) (one : bool) (m : nat) (q V z : N) (J : nat) (users mantissa shift : N) (n : nat).
Hypothesis hn : (nat_of_bin users <= n)%N.

Theorem any_divergence clear : (0 < nat_of_bin q)%N -> (0 < n)%N ->
  certified_any p S one clear m q V z J users mantissa shift ->
  divergence one clear m n q <= mantissa%:R / 2%:R ^+ shift.
Proof.
move=> q0 n0 /and3P [m1 J0 h]; have m0 : (0 < m)%N by apply: leq_trans m1.
rewrite divergenceE //; apply: first_check_sound J0 hn h => //.
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

Variable G : finZmodType.
Hypothesis hq : nat_of_bin q = #|G|.

Lemma half_any clear (t : rat) : (0 < n)%N ->
  certified_any p S one clear m q V z J users mantissa shift ->
  ((0 < m)%N -> t <= divergence one clear m n #|G| / 2%:R) -> t <= mantissa%:R / 2%:R ^+ shift / 2%:R.
Proof.
move=> n0 h ht; have /and3P [m1 _ _] := h; apply: le_trans (ht (leq_trans _ m1)) _ => //.
rewrite ler_wpmul2r ?invr_ge0 ?ler0n // -hq; apply: any_divergence n0 h.
by rewrite hq q_gt0.
Qed.

Theorem any_security (x x' : {ffun 'I_n -> G}) T : (0 < n)%N ->
  certified_any p S one true m q V z J users mantissa shift -> \sum_i x i = \sum_i x' i ->
  (Pr (@owner m _) (shufflers one m n) x T - Pr (@owner m _) (shufflers one m n) x' T) ^+ 2 <=
  mantissa%:R / 2%:R ^+ shift / 2%:R.
Proof. by move=> n0 h e; apply: (half_any n0 h) => m0; apply: security. Qed.

Theorem any_security_no_clear (x x' : {ffun 'I_n -> G}) T : (0 < n)%N ->
  certified_any p S one false m q V z J users mantissa shift -> \sum_i x i = \sum_i x' i ->
  (Pr2 (@owner m _) (shufflers one m n) x T - Pr2 (@owner m _) (shufflers one m n) x' T) ^+ 2 <=
  mantissa%:R / 2%:R ^+ shift / 2%:R.
Proof. by move=> n0 h e; apply: (half_any n0 h) => m0; apply: security_no_clear. Qed.
End Certified.

Lemma positive_gt0 (p : positive) : (0 < nat_of_bin (Npos p))%N.
Proof. by rewrite lt0n; apply/eqP => h; have := nat_of_binK (Npos p); rewrite h. Qed.

(* 13 messages and a clear share hide 64-bit numbers by 88 bits, from a million users on. *)
Corollary million (n : nat) (G : finZmodType) (x x' : {ffun 'I_n -> G}) T :
  (nat_of_bin 1000000 <= n)%N -> nat_of_bin 18446744073709551616 = #|G| ->
  \sum_i x i = \sum_i x' i ->
  (Pr (@owner 13 _) (parallel 13 _) x T - Pr (@owner 13 _) (parallel 13 _) x' T) ^+ 2 <=
  1%N%:R / 2%:R ^+ 175 / 2%:R.
Proof.
move=> hn hq; apply: (@any_security 80 20000 false 13 18446744073709551616 1953 88 8 1000000 1 175 n
  hn G hq x x' T).
  by apply: leq_trans hn.
by vm_compute.
Qed.
