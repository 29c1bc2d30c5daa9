(* Parties that add: perfect privacy against all parties but one.

   Each honest user b splits y_b into shares v(b, j), uniform subject to their sum, one for every party
   j of I. Party i follows the protocol. The coalition sees all shares but those of party i, chooses
   from them a set of honest users and what dishonest users add to party i's sum, and gets party i's
   answer: its shares of the chosen users, that addition, and party i's noise.

   simulated: the coalition's view has the law of shares drawn uniformly without regard to y, and of an
   answer computed from them and from the chosen users' sum of y alone.
   perfect_privacy: so inputs with equal sums over every set that may be chosen give equal
   probabilities to every event.
   private_with_noise: if party i's noise makes that sum (log e, delta)-private, so is the view.
   No user has to be honest for this but the one that is replaced.

   masked_privacy: the same for values under one-time pads, with the sum of the pads.
   pairwise_masks: the same for masks that pairs of users share and that cancel in the sum, on any graph
   of pairs: the masked values show the sums over its components and nothing else. *)
From mathcomp Require Import all_ssreflect all_fingroup all_algebra.
From Ikos Require Import Graph.
Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.
Import Order.TTheory GRing.Theory Num.Theory.
Local Open Scope ring_scope.

Section Helpers.
(* Honest users, parties, the party that follows the protocol, its noise (uniform coins r in R). *)
Variables (U I R : finType) (G : finZmodType) (i : I) (eta : R -> G).
Notation sharing := {ffun U * I -> G}.
Implicit Types (y : {ffun U -> G}) (v w : sharing).

Definition sharings y := [set v : sharing | [forall b, \sum_j v (b, j) == y b]].

(* What all other parties have, with 0 in the place of party i's shares. *)
Definition others v : sharing := [ffun c => if c.2 == i then 0 else v c].

(* The coalition's rules: any functions of what it has seen. *)
Variables (chosen : sharing -> {set U}) (added : sharing -> G).

Definition answer (o : sharing * R) : G :=
  \sum_(b in chosen (others o.1)) o.1 (b, i) + added (others o.1) + eta o.2.
Definition view (o : sharing * R) : sharing * G := (others o.1, answer o).

Definition outcomes y := [set o : sharing * R | o.1 \in sharings y].
Definition Pr y (T : {set sharing * G}) : rat :=
  #|[set o in outcomes y | view o \in T]|%:R / #|outcomes y|%:R.

(* The simulator: w is uniform on free; its answer knows y by the sum over the chosen users only. *)
Definition free := [set w : sharing | [forall b, w (b, i) == 0]].
Definition total y w : G := \sum_(b in chosen w) y b.
Definition known w : G := added w - \sum_(b in chosen w) \sum_j w (b, j).
Definition simulation y (o : sharing * R) : sharing * G := (o.1, total y o.1 + known o.1 + eta o.2).

Definition complete y w : sharing :=
  [ffun c => if c.2 == i then y c.1 - \sum_j w (c.1, j) else w c].

Lemma others_free v : others v \in free.
Proof. by rewrite inE; apply/forallP => b; rewrite ffunE eqxx. Qed.

Lemma complete_sharing y w : w \in free -> complete y w \in sharings y.
Proof.
rewrite !inE => /forallP h; apply/forallP => b.
rewrite (bigD1 i) //= (eq_bigr (fun j => w (b, j))) => [|j /negPf d]; last by rewrite ffunE /= d.
by rewrite ffunE eqxx (bigD1 i) //= (eqP (h b)) add0r subrK.
Qed.

Lemma completeK y w : w \in free -> others (complete y w) = w.
Proof.
rewrite inE => /forallP h; apply/ffunP => -[b j]; rewrite !ffunE /=.
by case: (j =P i) => [->|//]; rewrite (eqP (h b)).
Qed.

Lemma othersK y v : v \in sharings y -> complete y (others v) = v.
Proof.
rewrite inE => /forallP h; apply/ffunP => -[b j]; rewrite ffunE /=.
case: (j =P i) => [->|/eqP/negPf d]; last by rewrite ffunE /= d.
rewrite -(eqP (h b)) (bigD1 i) //= [X in _ - X](bigD1 i) //= ffunE eqxx add0r.
rewrite [X in _ - X](eq_bigr (fun j => v (b, j))) ?addrK // => j' /negPf d.
by rewrite ffunE /= d.
Qed.

Lemma view_complete y o : o.1 \in free -> view (complete y o.1, o.2) = simulation y o.
Proof.
case: o => w r /= hw; rewrite /view /simulation /answer /= (completeK y hw); congr (_, _ + _).
rewrite /total /known [RHS]addrCA [RHS]addrC -sumrB; congr (_ + _).
by apply: eq_bigr => b _; rewrite ffunE eqxx.
Qed.

Lemma card_view y (T : {set sharing * G}) :
  #|[set o in outcomes y | view o \in T]| = #|[set o in setX free setT | simulation y o \in T]|.
Proof.
pose h (o : sharing * R) := (complete y o.1, o.2).
have hI : {in [set o in setX free setT | simulation y o \in T] &, injective h}.
  case=> w r [w' r']; rewrite !inE /= => /andP [/andP [hw _] _] /andP [/andP [hw' _] _] [e ->].
  by rewrite -(@completeK y w) ?inE // e completeK // inE.
rewrite -(card_in_imset hI); apply: eq_card => -[v r]; rewrite !inE /=.
apply/andP/imsetP => [[hv hT]|[[w r']]].
  have hv' : v \in sharings y by rewrite inE.
  exists (others v, r); last by rewrite /h /= othersK.
  rewrite inE in_setX /= others_free in_setT /=.
  by rewrite -view_complete ?others_free //= othersK.
rewrite inE in_setX => /andP [/andP [/= hw _] hT] [-> ->].
by have := complete_sharing y hw; rewrite inE => ->; rewrite (view_complete y (o := (w, r'))).
Qed.

(* The law of the coalition's view. *)
Theorem simulated y (T : {set sharing * G}) :
  Pr y T = #|[set o in setX free setT | simulation y o \in T]|%:R / #|setX free [set: R]|%:R.
Proof.
rewrite /Pr card_view; congr (_ / _%:R).
transitivity #|[set o in outcomes y | view o \in setT]|.
  by apply: eq_card => o; rewrite !inE andbT.
by rewrite card_view; apply: eq_card => o; rewrite !inE !andbT.
Qed.

Theorem perfect_privacy y y' (T : {set sharing * G}) :
  (forall w, \sum_(b in chosen w) y b = \sum_(b in chosen w) y' b) -> Pr y T = Pr y' T.
Proof.
move=> h; rewrite !simulated; congr (_%:R / _); apply: eq_card => o.
by rewrite !inE /simulation /total h.
Qed.

(* Events that happen only where the chosen set has the same sum of y and of y'. *)
Theorem perfect_privacy_event y y' (T : {set sharing * G}) :
  (forall t, t \in T -> \sum_(b in chosen t.1) y b = \sum_(b in chosen t.1) y' b) -> Pr y T = Pr y' T.
Proof.
move=> h; rewrite !simulated; congr (_%:R / _); apply: eq_card => -[w r]; rewrite !inE; congr (_ && _).
by apply/idP/idP => hT; have := h _ hT; rewrite /simulation /total /= => e; rewrite ?e // -e.
Qed.

Lemma card_pairs (X : {set sharing}) (F : sharing * R -> bool) :
  #|[set o in setX X setT | F o]| = (\sum_(w in X) #|[set r | F (w, r)]|)%N.
Proof.
rewrite -sum1_card (eq_bigr (fun w => \sum_(r | F (w, r)) 1)%N) => [|w _]; last first.
  by rewrite -sum1_card; apply: eq_bigl => r; rewrite inE.
rewrite pair_big_dep /=; apply: eq_bigl => -[w r]; by rewrite !inE andbT.
Qed.

Theorem private_with_noise y y' (e delta : rat) (T : {set sharing * G}) :
  (forall w (A : {set G}), #|[set r | total y w + eta r \in A]|%:R <=
     e * #|[set r | total y' w + eta r \in A]|%:R + delta * #|R|%:R) ->
  (0 < #|R|)%N -> Pr y T <= e * Pr y' T + delta.
Proof.
move=> h R0; have n0 : 0 < #|setX free [set: R]|%:R :> rat.
  by rewrite ltr0n cardsX muln_gt0 cardsT R0 andbT; apply/card_gt0P; exists (others 0); apply: others_free.
rewrite !simulated mulrA ler_pdivr_mulr // mulrDl divfK ?gt_eqF // !card_pairs cardsX cardsT.
rewrite natrM mulrCA mulr_natl -sumr_const !natr_sum mulr_sumr -big_split /=.
apply: ler_sum => w _; pose A := [set a | (w, a + known w) \in T].
have e1 z : #|[set r | simulation z (w, r) \in T]| = #|[set r | total z w + eta r \in A]|.
  by apply: eq_card => r; rewrite !inE /simulation /= addrAC.
by rewrite !e1; apply: h.
Qed.
End Helpers.

Section Masked.
(* One-time pads r, uniform; values x_b + r_b, and the sum of r over a set chosen from these. *)
Variables (U : finType) (G : finZmodType) (chosen : {ffun U -> G} -> {set U}).
Implicit Types (x r c : {ffun U -> G}).
Definition masked_view x r : {ffun U -> G} * G := (x + r, \sum_(b in chosen (x + r)) r b).

Theorem masked_privacy x x' (T : {set {ffun U -> G} * G}) :
  (forall c, \sum_(b in chosen c) x b = \sum_(b in chosen c) x' b) ->
  #|[set r | masked_view x r \in T]| = #|[set r | masked_view x' r \in T]|.
Proof.
move=> h; rewrite -(card_imset _ (addrI (x - x'))); apply: eq_card => r.
have e z : masked_view x' (x - x' + z) = masked_view x z.
  rewrite /masked_view addrA addrCA subrr addr0; congr (_, _).
  rewrite (eq_bigr (fun b => x b - x' b + z b)) => [|b _]; last by rewrite !ffunE.
  by rewrite big_split sumrB h subrr /= add0r.
rewrite [RHS]inE; apply/imsetP/idP => [[z]|hr]; first by rewrite inE => hz ->; rewrite e.
exists (r - (x - x')); last by rewrite addrC subrK.
by rewrite inE -e addrC subrK.
Qed.
End Masked.

Section Pairwise.
(* Users, pairs of users with a common mask: src adds it, tgt subtracts it. *)
Variables (U E : finType) (src tgt : E -> U) (G : finZmodType).
Implicit Types (x : {ffun U -> G}) (b : {ffun E -> G}).

Theorem pairwise_masks x x' (T : {set {ffun U -> G}}) : balanced src tgt (x' - x) ->
  #|[set b | x + divergence src tgt b \in T]| = #|[set b | x' + divergence src tgt b \in T]|.
Proof.
case/balanced_image/imsetP => d _ e; rewrite -[RHS](card_imset _ (addrI d)); apply: eq_card => b.
have h z : x + divergence src tgt (d + z) = x' + divergence src tgt z.
  by rewrite divergenceD -e addrA addrCA subrr addr0.
rewrite inE; apply/idP/imsetP => [hb|[z]]; last by rewrite inE => hz ->; rewrite h.
exists (b - d); last by rewrite addrC subrK.
by rewrite inE -h [d + _]addrC subrK.
Qed.

Corollary pairwise_masks_connected x x' (T : {set {ffun U -> G}}) :
  components src tgt = 1%N -> \sum_i x i = \sum_i x' i ->
  #|[set b | x + divergence src tgt b \in T]| = #|[set b | x' + divergence src tgt b \in T]|.
Proof.
move=> hc e; apply: pairwise_masks.
have y0 : \sum_i (x' - x) i = 0.
  by rewrite (eq_bigr (fun i => x' i - x i)) ?sumrB ?e ?subrr // => i _; rewrite !ffunE.
apply: contraT => h; have := @unbalanced_splits _ _ src tgt G setT _ y0 _ h.
by rewrite splitsT hc; apply=> i; rewrite inE.
Qed.
End Pairwise.
