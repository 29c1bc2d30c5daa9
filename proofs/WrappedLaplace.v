(* Discrete Laplace noise modulo q, as the private sum shares it.

   wrap: the 2 J integers t + q j, -J <= j < J, for t in {0..q-1}, have the probability
   wrapped t (1 - al^(q J)), wrapped t = (1-al)/(1+al) (al^t + al^(q-t)) / (1 - al^q). So wrapped is the
   law modulo q; it adds up to 1 (wrapped_total).
   wrapped_private: a change by d steps, in either direction, costs a factor of at most al^-d, also
   around q.
   private_sum_laplace: the private sum when the total has this law and user i's value changes by
   at most p steps: M[T] <= (1+c)^2 e M'[T] + eta (1 + (1+c) e) for every e with 1 <= e al^p. *)
From mathcomp Require Import all_ssreflect all_fingroup all_algebra.
From Ikos Require Import Graph Shuffle HockeyStick PolyaNoise PrivateSum.
Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.
Import Order.TTheory GRing.Theory Num.Theory GroupScope.
Local Open Scope ring_scope.

Section Wrapped.
Variables (F : realFieldType) (al : F) (q : nat).
Hypotheses (al_gt0 : 0 < al) (al_lt1 : al < 1) (q_gt0 : (0 < q)%N).

Definition both t : F := al ^+ t + al ^+ (q - t).
Definition wrapped t : F := (1 - al) / (1 + al) / (1 - al ^+ q) * both t.

Lemma power_lt1 : 1 - al ^+ q != 0.
Proof. by rewrite subr_eq0 eq_sym lt_eqF // exprn_ilt1 ?ltW // -lt0n. Qed.

Lemma geometric_powers (b : F) (J : nat) : ((1 - b) * (\sum_(j < J) b ^+ j) = 1 - b ^+ J)%R.
Proof. by rewrite -[RHS]opprB subrX1 -mulNr opprB. Qed.

Theorem wrap (t J : nat) : (t < q)%N ->
  \sum_(j < J) (laplace al (Posz (t + q * j)) + laplace al (Posz t - Posz (q * j.+1))) =
  wrapped t * (1 - al ^+ (q * J)).
Proof.
move=> ht; rewrite exprM -geometric_powers /wrapped.
have -> : (1 - al) / (1 + al) / (1 - al ^+ q) * both t * ((1 - al ^+ q) * \sum_(j < J) (al ^+ q) ^+ j) =
    (1 - al) / (1 + al) * both t * \sum_(j < J) (al ^+ q) ^+ j.
  by rewrite [_ / _ / _ * _]mulrAC [LHS]mulrA divfK ?power_lt1.
rewrite mulr_sumr; apply: eq_bigr => j _.
have hj : (t <= q * j.+1)%N by rewrite mulnS (leq_trans (ltnW ht)) ?leq_addr.
rewrite /laplace distnEr // -mulrDr -[RHS]mulrA; congr (_ * _).
rewrite /both mulrDl -!exprM -!exprD; congr (_ + _ ^+ _).
by rewrite mulnS addnBAC // ltnW.
Qed.

Lemma wrapped_total : \sum_(t < q) wrapped t = 1.
Proof.
rewrite -mulr_sumr; have -> : \sum_(t < q) both t = (1 + al) * \sum_(t < q) al ^+ t.
  rewrite big_split /= mulrDl mul1r; congr (_ + _).
  rewrite (reindex_inj rev_ord_inj) mulr_sumr; apply: eq_bigr => t _ /=.
  by rewrite subKn // exprS.
have p1 : 1 + al != 0 by rewrite gt_eqF // ltr_paddl ?ler01.
rewrite [_ / _ / _]mulrAC mulrA divfK // mulrAC.
by rewrite geometric_powers mulfV ?power_lt1.
Qed.

Lemma wrapped_ge0 : 0 <= (1 - al) / (1 + al) / (1 - al ^+ q).
Proof.
have h1 : al ^+ q <= 1 by rewrite exprn_ile1 ?ltW.
by rewrite !divr_ge0 ?subr_ge0 ?(ltW al_lt1) // addr_ge0 ?ler01 ?ltW.
Qed.

Lemma wrapped_up t : (t < q)%N -> al * wrapped t <= wrapped t.+1.
Proof.
move=> ht; rewrite mulrCA ler_wpmul2l ?wrapped_ge0 // /both mulrDr -!exprS ler_add2l.
by rewrite ler_wiexpn2l ?ltW // leqW // leq_sub2l.
Qed.

Lemma wrapped_down t : (t < q)%N -> al * wrapped t.+1 <= wrapped t.
Proof.
move=> ht; rewrite mulrCA ler_wpmul2l ?wrapped_ge0 // /both mulrDr -!exprS -subSn // subSS ler_add2r.
by rewrite ler_wiexpn2l ?ltW // ltnW.
Qed.

Lemma wrapped_ends : wrapped q = wrapped 0.
Proof. by rewrite /wrapped /both subnn subn0 [al ^+ q + _]addrC. Qed.
End Wrapped.

Section Modulo.
(* The integers modulo q = r + 2. *)
Variables (F : realFieldType) (al : F) (r : nat).
Hypotheses (al_gt0 : 0 < al) (al_lt1 : al < 1).
Notation q := r.+2.
Definition law (t : 'I_q) : F := wrapped al q t.

Lemma law_step (t : 'I_q) : (al * law t <= law (t + 1)) /\ (al * law (t + 1) <= law t).
Proof.
have e : law (t + 1) = wrapped al q t.+1.
  have ev : nat_of_ord (t + 1) = (t.+1 %% q)%N by rewrite /= addn1.
  rewrite /law ev; case: (ltnP t.+1 q) => [/modn_small -> //|h].
  have -> : t.+1 = q by apply/eqP; rewrite eqn_leq h ltn_ord.
  by rewrite modnn wrapped_ends.
by rewrite e; split; [apply: wrapped_up | apply: wrapped_down].
Qed.

Theorem wrapped_private (t : 'I_q) d :
  (al ^+ d * law t <= law (t + d%:R)) /\ (al ^+ d * law t <= law (t - d%:R)).
Proof.
have a0 : 0 <= al by apply: ltW.
elim: d => [|d [IH1 IH2]]; first by rewrite addr0 subr0 expr0 mul1r.
split.
  have [h _] := law_step (t + d%:R); rewrite exprS -mulrA mulrSr addrA.
  by apply: le_trans h; rewrite ler_wpmul2l.
have [_ h] := law_step (t - d.+1%:R); move: h.
have -> : t - d.+1%:R + 1 = t - d%:R by rewrite mulrS opprD addrA addrAC subrK.
by move=> h; rewrite exprS -mulrA; apply: le_trans h; rewrite ler_wpmul2l.
Qed.

(* A change of at most p steps, for e = al^-p or more. *)
Lemma shift_private p d (e : F) (t c : 'I_q) : 1 <= e * al ^+ p -> (d <= p)%N ->
  c = d%:R \/ c = - d%:R -> law t <= e * law (t - c).
Proof.
move=> he hd hc; have a0 : 0 <= al by apply: ltW.
have l0 s : 0 <= law s.
  by rewrite /law /wrapped mulr_ge0 ?wrapped_ge0 // addr_ge0 ?exprn_ge0.
have e0 : 0 <= e.
  have := le_trans ler01 he; rewrite pmulr_lge0 // exprn_gt0 //.
have hs : al ^+ d * law t <= law (t - c).
  by have [h1 h2] := wrapped_private t d; case: hc => ->; rewrite ?opprK.
apply: le_trans (ler_wpmul2l e0 hs); rewrite mulrA ler_pemull // (le_trans he) //.
by rewrite ler_wpmul2l // ler_wiexpn2l // ltW.
Qed.

Variables (U S : finType) (own : S -> U) (P : {group {perm S}}) (m : nat).
Notation G := [finZmodType of 'I_q].
Hypothesis m_gt0 : (0 < m)%N.
Hypothesis own_m : forall i, #|[pred j | own j == i]| = m.
Hypothesis n_gt0 : (0 < #|U|)%N.
Variables (Omega : finType) (w : Omega -> F) (z : Omega -> {ffun U -> G}).
Variables (A : Omega -> {set U}) (i : U) (x x' : {ffun U -> G}) (e : F) (p d : nat).
Hypothesis w_ge0 : forall o, 0 <= w o.
Hypothesis w_sum : \sum_o w o = 1.
Hypothesis iA : forall o, i \in A o.
Hypothesis zA : forall o u, u \notin A o -> z o u = 0.
Hypothesis hx : forall u, u != i -> x u = x' u.
Hypothesis total_law : forall t, nu w z t = law t.
Hypothesis he : 1 <= e * al ^+ p.
Hypothesis hd : (d <= p)%N.
Hypothesis change : x' i - x i = d%:R \/ x' i - x i = - d%:R.

Theorem private_sum_laplace T (c th : rat) : 0 < c -> 0 < th -> th < 1 ->
  let eta := average w A (Delta own G P) / ratr (2%:R * (c * th)) +
    ratr (c * (mean P (fun p => #|G|%:R ^+ (C own p).-1) - 1) / (4%:R * (1 - th))) in
  M own P w z x T <= (1 + ratr c) ^+ 2 * e * M own P w z x' T + eta * (1 + (1 + ratr c) * e).
Proof.
have e0 : 0 <= e by have := le_trans ler01 he; rewrite pmulr_lge0 // exprn_gt0.
have hnu t : nu w z t <= e * nu w z (t - (x' i - x i)).
  by rewrite !total_law; apply: (shift_private _ he hd change).
exact: (private_sum P m_gt0 own_m n_gt0 w_ge0 w_sum iA zA e0 hx hnu).
Qed.
End Modulo.
