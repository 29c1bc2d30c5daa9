(* The extra share (Lemma 6.1 of BBGN20): from the average case to the worst case, for every fixed offset.

   V(x) is the view of m shuffled messages, without a clear share, TV the total variation.
   extra_share: with a clear share besides, the total variation between the joint views of x and x' is
   the mean of TV(V(X), V(X + d)) over uniform X, with the fixed offset d = x' - x. It is an identity, for
   any x and x'.
   extra_share_bound: hence a bound of this mean for every fixed d of sum zero is a bound of the worst
   case, and the other way round. A bound for X and X' that are independent does not imply it.
   extra_share_shuffled: if the extra share is shuffled, by any group that has all permutations of the
   first m messages, no event tells inputs apart by more. *)
From mathcomp Require Import all_ssreflect all_fingroup all_algebra.
From Ikos Require Import Graph Shuffle NoClear Colour Recursion Instances.
Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.
Import Order.TTheory GRing.Theory Num.Theory GroupScope.
Local Open Scope ring_scope.

Section ExtraShare.
Variables (U S : finType) (own : S -> U) (G : finZmodType) (P : {group {perm S}}) (m : nat).
Hypothesis m_gt0 : (0 < m)%N.
Hypothesis own_m : forall i, #|[pred j | own j == i]| = m.
Implicit Types (x y d : {ffun U -> G}).
Notation Q := (#|G|%:R : rat).
Notation n := #|U|.

(* Total variation of the shuffled messages alone, its mean for an offset, and that of joint views. *)
Definition TV x y : rat := (\sum_v `|prob own P x v - prob own P y v|) / 2%:R.
Definition average_TV d : rat := (\sum_x TV x (x + d)) / Q ^+ n.
Definition joint_TV x x' : rat := L1 own P x x' / 2%:R.

Theorem extra_share x x' : joint_TV x x' = average_TV (x' - x).
Proof.
have n0 : Q ^+ n != 0 by rewrite expf_neq0 // Q_neq0.
rewrite /joint_TV /average_TV /TV -mulr_suml mulrAC; congr (_ / _).
apply: (mulIf n0); rewrite divfK // /L1.
rewrite (eq_bigr (fun w : {ffun U -> G} * {ffun S -> G} => `|diff own P x x' (w.1, w.2)|)); last by case.
rewrite -(pair_big xpredT xpredT (fun u v => `|diff own P x x' (u, v)|)) /=.
rewrite (reindex_inj (can_inj (subKr x))) mulr_suml; apply: eq_bigr => y _ /=.
rewrite mulr_suml; apply: eq_bigr => v _; rewrite diffE /= subKr.
have -> : x' - (x - y) = y + (x' - x) by rewrite opprB addrCA addrA.
rewrite /prob !(card_shares m_gt0 own_m) -mulrBl !normrM -mulrA; congr (_ * _).
have q0 : 0 <= (#|P|%:R * Q ^+ #|S|)^-1 by rewrite invr_ge0 mulr_ge0 ?exprn_ge0 ?ler0n.
rewrite (ger0_norm q0) ger0_norm ?invr_ge0 ?ler0n // natrM natrX (slotsE own_m) (mnE _ m_gt0) exprD.
by rewrite [_ * (_ * _)]mulrA invfM divfK.
Qed.

Corollary extra_share_bound (b : rat) :
  (forall d, \sum_i d i = 0 -> average_TV d <= b) <->
  (forall x x', \sum_i x i = \sum_i x' i -> joint_TV x x' <= b).
Proof.
have sub x x' : \sum_i (x' - x) i = \sum_i x' i - \sum_i x i.
  by rewrite -sumrB; apply: eq_bigr => i _; rewrite !ffunE.
split=> [h x x' e|h d hd]; first by rewrite extra_share h // sub e subrr.
have := h 0 d; rewrite extra_share subr0; apply; rewrite hd.
by apply: big1 => i _; rewrite ffunE.
Qed.

(* What a bound means for events. *)
Corollary extra_share_event (b : rat) x x' T :
  (forall d, \sum_i d i = 0 -> average_TV d <= b) -> \sum_i x i = \sum_i x' i ->
  `|Pr own P x T - Pr own P x' T| <= b.
Proof.
move=> /extra_share_bound h e; apply: le_trans (h x x' e).
by rewrite /joint_TV ler_pdivl_mulr ?ltr0n // mulrC; exact: event_le_L1.
Qed.
End ExtraShare.

Section Shuffled.
(* The extra share of user u is slot inr u. P1 has all permutations of the first slots in P. *)
Variables (U S : finType) (own : S -> U) (G : finZmodType) (P : {group {perm S}}).
Variable P1 : {group {perm S + U}}.
Implicit Types (x u : {ffun U -> G}) (s : {ffun S -> G}) (p : {perm S}) (r : {perm S + U}).
Local Notation viewT := ({ffun U -> G} * {ffun S -> G})%type.
Local Notation all_shares := {ffun S + U -> G}.

Definition own1 (j : S + U) : U := match j with inl t => own t | inr u => u end.

Definition lift_fun p (j : S + U) : S + U := match j with inl t => inl (p t) | inr u => inr u end.
Lemma lift_inj p : injective (lift_fun p).
Proof. by move=> [j|u] [j'|u'] //= [/perm_inj ->]. Qed.
Definition lift p : {perm S + U} := perm (@lift_inj p).
Hypothesis hP1 : forall p, p \in P -> lift p \in P1.

Definition join (w : viewT) : all_shares := [ffun j => match j with inl t => w.2 t | inr u => w.1 u end].
Definition unjoin (a : all_shares) : viewT := ([ffun u => a (inr u)], [ffun t => a (inl t)]).

Lemma joinK : cancel join unjoin.
Proof. by case=> u s; congr (_, _); apply/ffunP => j; rewrite !ffunE. Qed.

Lemma unjoinK : cancel unjoin join.
Proof. by move=> a; apply/ffunP => -[j|j]; rewrite !ffunE. Qed.

Lemma usum_join w : usum own1 (join w) = w.1 + usum own w.2.
Proof.
apply/ffunP => i; rewrite !ffunE big_sumType /= addrC; congr (_ + _).
  by rewrite (big_pred1 i) ?ffunE // => u; rewrite ffunE.
by apply: eq_bigr => j _; rewrite ffunE.
Qed.

Lemma view_lift p w : view (lift p) (join w) = join (w.1, view p w.2).
Proof. by apply/ffunP => -[j|j]; rewrite !ffunE permE /= ?ffunE. Qed.

(* The joint views from which the permutation r of all messages leads into T. *)
Definition before r (T : {set all_shares}) : {set viewT} := [set w | view r (join w) \in T].

Lemma card_views x (T : {set all_shares}) :
  (#|P| * #|[set o in outcomes2 own1 P1 x | view o.1 o.2 \in T]| =
   \sum_(r in P1) #|[set o in outcomes own P x | seen o \in before r T]|)%N.
Proof.
have pairs (X Y : finType) (D : {set X}) (E : X * Y -> bool) :
    #|[set o : X * Y | (o.1 \in D) && E o]| = (\sum_(a in D) #|[set b | E (a, b)]|)%N.
  rewrite -sum1_card (eq_bigr (fun a => \sum_(b | E (a, b)) 1)%N) => [|a _]; last first.
    by rewrite -sum1_card; apply: eq_bigl => b; rewrite inE.
  by rewrite pair_big_dep /=; apply: eq_bigl => -[a b]; rewrite !inE.
transitivity (\sum_(p in P) \sum_(r in P1)
    #|[set w : viewT | ((w.1 + usum own w.2)%R == x) && (view r (join (w.1, view p w.2)) \in T)]|)%N.
  rewrite -sum_nat_const; apply: eq_bigr => p hp.
  transitivity (\sum_(r in P1) #|[set a | (a \in shares own1 x) && (view r a \in T)]|)%N.
    rewrite -(pairs _ _ P1 (fun o => (o.2 \in shares own1 x) && (view o.1 o.2 \in T))).
    by apply: eq_card => -[r a]; rewrite !inE /= andbA.
  rewrite (reindex_inj (mulIg (lift p))) /=; apply: eq_big => r; first by rewrite groupMr ?hP1.
  move=> _; rewrite -(card_imset _ (can_inj joinK)); apply: eq_card => a.
  rewrite inE -[a]unjoinK (mem_imset _ _ (can_inj joinK)) !inE usum_join.
  by rewrite -viewM view_lift.
rewrite exchange_big /=; apply: eq_bigr => r _.
rewrite -(pairs _ _ P (fun o : {perm S} * viewT =>
  (o.2.1 + usum own o.2.2 == x) && (view r (join (o.2.1, view o.1 o.2.2)) \in T))).
by apply: eq_card => -[p [u s]]; rewrite !inE /= andbA.
Qed.

Lemma card_outcomes2 x : (#|P| * #|outcomes2 own1 P1 x| = #|P1| * #|outcomes own P x|)%N.
Proof.
have := card_views x setT; rewrite (_ : [set o in outcomes2 own1 P1 x | _] = outcomes2 own1 P1 x).
  move=> ->; rewrite -sum_nat_const; apply: eq_bigr => r _; apply: eq_card => o.
  by rewrite !inE andbT.
by apply/setP => o; rewrite !inE andbT.
Qed.

Lemma Pr2_mixture x (T : {set all_shares}) :
  Pr2 own1 P1 x T = (\sum_(r in P1) Pr own P x (before r T)) / #|P1|%:R.
Proof.
have P0 : #|P|%:R != 0 :> rat by rewrite pnatr_eq0 -lt0n cardG_gt0.
transitivity ((#|P| * #|[set o in outcomes2 own1 P1 x | view o.1 o.2 \in T]|)%:R /
    (#|P| * #|outcomes2 own1 P1 x|)%:R : rat).
  by rewrite /Pr2 !natrM -mulf_div divff // mul1r.
by rewrite card_views card_outcomes2 natr_sum natrM invfM mulrA mulrAC mulr_suml.
Qed.

Theorem extra_share_shuffled (b : rat) x x' (T : {set all_shares}) :
  (forall T', `|Pr own P x T' - Pr own P x' T'| <= b) ->
  `|Pr2 own1 P1 x T - Pr2 own1 P1 x' T| <= b.
Proof.
move=> h; have P0 : 0 < #|P1|%:R :> rat by rewrite ltr0n cardG_gt0.
rewrite !Pr2_mixture -mulrBl -sumrB normrM normfV (ger0_norm (ltW P0)) ler_pdivr_mulr //.
apply: le_trans (ler_norm_sum _ _ _) _.
by rewrite mulr_natr -sumr_const; apply: ler_sum => r _; apply: h.
Qed.

(* Lemma 6.1 with the extra share shuffled. *)
Corollary extra_share_lemma (m : nat) (b : rat) x x' (T : {set all_shares}) :
  (0 < m)%N -> (forall i, #|[pred j | own j == i]| = m) ->
  (forall d : {ffun U -> G}, \sum_i d i = 0 -> average_TV own P d <= b) ->
  \sum_i x i = \sum_i x' i -> `|Pr2 own1 P1 x T - Pr2 own1 P1 x' T| <= b.
Proof.
move=> m0 hm h e; apply: extra_share_shuffled => T'.
exact: (@extra_share_event _ _ own G P m m0 hm b x x' T' h e).
Qed.
End Shuffled.

(* Both kinds of shufflers have the permutations that are asked for. *)
Section Groups.
Variables (U S L : finType) (lab : S -> L).
Definition lab1 (j : S + U) : option L := match j with inl t => Some (lab t) | inr u => None end.

Lemma lift_keeping p : p \in keeping lab -> lift U p \in keeping lab1.
Proof.
rewrite !inE => /forallP h; apply/forallP => -[t|u]; rewrite permE //=.
by rewrite (eqP (h t)).
Qed.

Lemma lift_single (p : {perm S}) : p \in single S -> lift U p \in single [finType of S + U].
Proof. by rewrite !inE. Qed.
End Groups.
