(* The hockey-stick divergence without a clear share, and the private sum with it.

   hockey_stick_generic: for any two laws with second moments D of their difference and X of one of them,
   against the uniform law, a(T) <= (1+c) b(T) + D/(2 c th) + c (X-1)/(4 (1-th)).
   hockey_stick_no_clear: all m messages shuffled, any fixed inputs of one sum that differ on A only:
   D = E[q^(C-1); left and right copies of A split] and X = E[q^(C-1)], C for the bipartite graph.
   private_sum_no_clear: the private sum without a clear share, for c > 0. *)
From mathcomp Require Import all_ssreflect all_fingroup all_algebra.
From Ikos Require Import Graph Shuffle HockeyStick NoClear PrivateSum.
Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.
Import Order.TTheory GRing.Theory Num.Theory GroupScope.
Local Open Scope ring_scope.

Section Generic.
Variables (V : finType) (A T : pred V) (a b : V -> rat) (D X c th : rat).
Hypothesis A_gt0 : (0 < #|A|)%N.
Hypothesis a0 : forall v, ~~ A v -> a v = 0.
Hypothesis b0 : forall v, ~~ A v -> b v = 0.
Hypothesis b1 : \sum_(v | A v) b v = 1.
Hypothesis hD : #|A|%:R * (\sum_v (a v - b v) ^+ 2) <= 2%:R * D.
Hypothesis hX : #|A|%:R * (\sum_v b v ^+ 2) <= X.
Hypotheses (c0 : 0 < c) (t0 : 0 < th) (t1 : th < 1).

Theorem hockey_stick_generic : \sum_(v | T v) a v <=
  (1 + c) * (\sum_(v | T v) b v) + D / (2%:R * (c * th)) + c * (X - 1) / (4%:R * (1 - th)).
Proof.
rewrite -addrA -ler_subl_addl.
pose K : rat := #|A|%:R; have K_gt0 : 0 < K by rewrite ltr0n.
pose u := K^-1; have u0 : 0 < u by rewrite invr_gt0.
have -> : \sum_(v | T v) a v - (1 + c) * (\sum_(v | T v) b v) =
    \sum_(v | T v && A v) (a v - (1 + c) * b v).
  rewrite mulr_sumr -sumrB (bigID A) /= [X in _ + X]big1 ?addr0 //.
  by move=> v /andP [_ h]; rewrite a0 // b0 // mulr0 subrr.
pose E v := (a v - b v) ^+ 2 / (4%:R * (c * th * u)).
pose B v := c * ((b v - u) ^+ 2 / (4%:R * ((1 - th) * u))).
have h1 : 0 < c * th * u by rewrite !mulr_gt0.
have h2 : 0 < (1 - th) * u by rewrite mulr_gt0 // subr_gt0.
have E0 v : 0 <= E v.
  by apply: mulr_ge0; rewrite ?sqr_ge0 // invr_ge0 mulr_ge0 ?ler0n // ltW.
have B0 v : 0 <= B v.
  apply: mulr_ge0 (ltW c0) _; apply: mulr_ge0; rewrite ?sqr_ge0 //.
  by rewrite invr_ge0 mulr_ge0 ?ler0n // ltW.
apply: (@le_trans _ _ (\sum_(v | A v) (E v + B v))).
  rewrite [X in _ <= X](bigID T) /= -[X in X <= _]addr0 ler_add //.
    rewrite (eq_bigl (fun v => A v && T v)); last by move=> v; rewrite andbC.
    by apply: ler_sum => v _; apply: pointwise.
  by apply: sumr_ge0 => v _; rewrite addr_ge0.
have K0 : K != 0 by rewrite gt_eqF.
have inv z r : z / (4%:R * (r * u)) = K * z / (4%:R * r).
  by rewrite [4%:R * (r * u)]mulrA invfM /u invrK mulrA mulrC mulrA.
have sub (g : V -> rat) : (forall v, 0 <= g v) -> \sum_(v | A v) g v <= \sum_v g v.
  move=> g0; rewrite [X in _ <= X](bigID A) /= -[X in X <= _]addr0 ler_add //.
  by apply: sumr_ge0.
rewrite big_split /= ler_add //.
  apply: (@le_trans _ _ (K * (\sum_v (a v - b v) ^+ 2) / (4%:R * (c * th)))).
    rewrite /E -mulr_suml inv; apply: ler_wpmul2r.
      by rewrite invr_ge0 !mulr_ge0 ?ler0n // ltW.
    by rewrite ler_pmul2l //; apply: sub => v; exact: sqr_ge0.
  have -> : D / (2%:R * (c * th)) = 2%:R * D / (4%:R * (c * th)).
    rewrite (_ : 4%:R = 2%:R * 2%:R :> rat); last by rewrite -natrM.
    by rewrite -[2%:R * 2%:R * (c * th)]mulrA -mulf_div divff ?pnatr_eq0 // mul1r.
  by apply: ler_wpmul2r => //; rewrite invr_ge0 !mulr_ge0 ?ler0n // ltW.
rewrite /B -mulr_sumr -mulr_suml inv -[c * _ / _]mulrA ler_pmul2l //.
apply: ler_wpmul2r; first by rewrite invr_ge0 mulr_ge0 ?ler0n // subr_ge0 ltW.
have -> : \sum_(v | A v) (b v - u) ^+ 2 = \sum_(v | A v) b v ^+ 2 - u.
  under eq_bigr => v _ do rewrite sqrrB.
  rewrite big_split sumrB /= sumrMnl -mulr_suml b1.
  have -> : \sum_(v | A v) u ^+ 2 = u.
    rewrite sumr_const -mulr_natr -[_%:R]/K expr2 -mulrA.
    by rewrite /u mulVf // mulr1.
  by rewrite mul1r mulr2n opprD addrA subrK.
rewrite mulrBr /u mulfV // ler_sub //; apply: le_trans hX.
by rewrite ler_pmul2l //; apply: sub => v; apply: sqr_ge0.
Qed.
End Generic.

Section NoClear.
Variables (U S : finType) (own : S -> U) (G : finZmodType) (P : {group {perm S}}) (m : nat).
Implicit Types (x y : {ffun U -> G}) (v : {ffun S -> G}).
Hypothesis m_gt0 : (0 < m)%N.
Hypothesis own_m : forall i, #|[pred j | own j == i]| = m.
Hypothesis n_gt0 : (0 < #|U|)%N.
Notation n := #|U|.
Notation slots := #|S|.
Notation Q := (#|G|%:R : rat).
Notation R := (#|P|%:R : rat).
Notation ways := (@ways U S own G P).
Notation scale := (scale U G P m).
Notation C2 := (C2 own).

Definition total_is x v := \sum_j v j == \sum_i x i.

Lemma count_total x : Q * #|total_is x|%:R = Q ^+ slots.
Proof.
rewrite -natrX -(card_total m_gt0 own_m n_gt0 (\sum_i x i)) natrM mulrC.
by congr (_%:R * _); apply: eq_card => v; rewrite !inE.
Qed.

Lemma scaled x (s e : rat) : s * Q ^+ (n + n) = R * (Q ^+ slots * (Q * e)) ->
  #|total_is x|%:R * (s / scale ^+ 2) = e / R.
Proof.
move=> hs; have n0 : Q ^+ n != 0 by rewrite expf_neq0 // Q_neq0.
have nn0 : Q ^+ (n + n) != 0 by rewrite expf_neq0 // Q_neq0.
have s0 : Q ^+ slots != 0 by rewrite expf_neq0 // Q_neq0.
have -> : s / scale ^+ 2 = s * Q ^+ (n + n) / (R * Q ^+ slots) ^+ 2.
  have -> : R * Q ^+ slots = scale * Q ^+ n.
    by rewrite /scale (slotsE own_m) (mnE U m_gt0) exprD mulrA.
  rewrite [(scale * _) ^+ 2]exprMn -(exprM Q n 2) muln2 -addnn -mulf_div.
  by rewrite divff // mulr1.
have hA : Q * #|total_is x|%:R = Q ^+ slots * 1 by rewrite mulr1 count_total.
have h := alg1 e 1 (R_neq0 P) s0 (oner_neq0 _) hA.
by rewrite hs mulrC; rewrite !mul1r divr1 in h.
Qed.

Lemma law2E x v : Pr2 own P x [set v] = (ways x v)%:R / scale.
Proof. by rewrite (Pr2E P m_gt0 own_m) big_set1. Qed.

Lemma event_sum x (T : {set {ffun S -> G}}) : Pr2 own P x T = \sum_(v | v \in T) Pr2 own P x [set v].
Proof. by rewrite (Pr2E P m_gt0 own_m) mulr_suml; apply: eq_bigr => v _; rewrite law2E. Qed.

Lemma law2_off x v : ~~ total_is x v -> Pr2 own P x [set v] = 0.
Proof.
move=> h; rewrite law2E; have /eqP -> : ways x v == 0%N; last by rewrite mul0r.
by apply: contraR h => /N_support h; rewrite /total_is h.
Qed.

Lemma law2_total x : \sum_(v | total_is x v) Pr2 own P x [set v] = 1.
Proof.
have <- : Pr2 own P x setT = 1.
  rewrite /Pr2 (_ : [set w in outcomes2 own P x | _] = outcomes2 own P x).
    rewrite divff // pnatr_eq0 (_ : outcomes2 own P x = setX P (shares own x)).
      by rewrite cardsX (card_shares m_gt0 own_m) -lt0n muln_gt0 cardG_gt0 expn_gt0 q_gt0.
    by apply/setP => w; rewrite !inE.
  by apply/setP => w; rewrite !inE andbT.
rewrite event_sum [RHS](bigID (total_is x)) /= [X in _ = _ + X]big1 ?addr0.
  by apply: eq_bigl => v; rewrite inE.
by move=> v /andP [_ h]; rewrite law2_off.
Qed.

Theorem hockey_stick_no_clear (A : {set U}) x x' T (c th : rat) :
  \sum_i x i = \sum_i x' i -> (forall i, i \notin A -> x i = x' i) ->
  0 < c -> 0 < th -> th < 1 ->
  Pr2 own P x T <= (1 + c) * Pr2 own P x' T +
    mean P (fun p => (split2 own p A)%:R * Q ^+ (C2 p).-1) / (2%:R * (c * th)) +
    c * (mean P (fun p => Q ^+ (C2 p).-1) - 1) / (4%:R * (1 - th)).
Proof.
move=> e hA c0 t0 t1; rewrite (event_sum x) (event_sum x').
have off' v : ~~ total_is x v -> Pr2 own P x' [set v] = 0.
  by move=> h; apply: law2_off; rewrite /total_is -e.
apply: (@hockey_stick_generic _ (total_is x)) => //.
- have q0 : (0 < #|G|)%N by apply: q_gt0.
  have : 0 < Q * #|total_is x|%:R by rewrite count_total exprn_gt0 // ltr0n.
  by rewrite pmulr_rgt0 ?ltr0n.
- exact: law2_off.
- by rewrite -(law2_total x'); apply: eq_bigl => v; rewrite /total_is e.
- have -> : \sum_v (Pr2 own P x [set v] - Pr2 own P x' [set v]) ^+ 2 =
      squares2 own P x x' / scale ^+ 2.
    rewrite /squares2 mulr_suml; apply: eq_bigr => v _.
    by rewrite !law2E -mulrBl expr_div_n.
  rewrite (scaled _ (squares2E own P n_gt0 x x')) /mean mulrA ler_wpmul2r ?invr_ge0 ?ler0n //.
  rewrite mulr_sumr; apply: ler_sum => p _.
  by rewrite mulrA ler_wpmul2r ?exprn_ge0 ?ler0n // (bracket_le own p e hA).
have -> : \sum_v Pr2 own P x' [set v] ^+ 2 = (\sum_v (ways x' v)%:R * (ways x' v)%:R) / scale ^+ 2.
  by rewrite mulr_suml; apply: eq_bigr => v _; rewrite law2E expr_div_n expr2.
rewrite (@scaled x _ (\sum_(p in P) (fits own p x' x')%:R * Q ^+ (C2 p).-1)).
  rewrite /mean ler_wpmul2r ?invr_ge0 ?ler0n //; apply: ler_sum => p _.
  by rewrite -[X in _ <= X]mul1r ler_wpmul2r ?exprn_ge0 ?ler0n // lern1 leq_b1.
rewrite collisions2Q /M; congr (_ * _); rewrite !mulr_sumr; apply: eq_bigr => p _.
rewrite exprD -{1}(prednK (C2_gt0 own n_gt0 p)) exprS.
by rewrite mulrCA; congr (_ * _); rewrite mulrCA.
Qed.
End NoClear.

Section PrivateSumNoClear.
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

Theorem private_sum_no_clear T (c th : rat) : 0 < c -> 0 < th -> th < 1 ->
  let eta := average w A (Delta2 own G P) / ratr (2%:R * (c * th)) +
    ratr (c * (mean P (fun p => #|G|%:R ^+ (C2 own p).-1) - 1) / (4%:R * (1 - th))) in
  M2 own P w z x T <= (1 + ratr c) ^+ 2 * e * M2 own P w z x' T + eta * (1 + (1 + ratr c) * e).
Proof.
move=> c0 t0 t1 /=.
set k := c * _ / _; set a := (2%:R * (c * th))^-1.
have -> : average w A (Delta2 own G P) / ratr (2%:R * (c * th)) + ratr k =
    average w A (fun B => Delta2 own G P B * a + k).
  by rewrite averageD // /a fmorphV.
apply: (@chain F U Omega G _ (fun B => ratr (Delta2 own G P B * a + k)) (ratr c) _ _ _ w z A i) => //.
- by move=> y; rewrite ler0q Pr2_ge0.
- by rewrite ler0q ltW.
move=> B y y' h1 h2; rewrite -(rmorph1 (ratr_rmorphism F)) -rmorphD -rmorphM -rmorphD ler_rat.
rewrite addrA; exact: (hockey_stick_no_clear P m_gt0 own_m n_gt0 T h1 h2 c0 t0 t1).
Qed.
End PrivateSumNoClear.
