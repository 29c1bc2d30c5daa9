(* Commitments that hide perfectly, C = g^y h^r, in the place of the clear share and beside shares.

   The group of commitments is written with +: exp y is g^y, and exp (lg r) is h^r for h = g^a, lg r = a r.
   Nothing is assumed of exp and lg but that they are one-to-one and respect sums.

   commitment_is_clear_share: commitments, with the blinding factors' shares shuffled, have the law of
   the view of the secure sum with a clear share, up to one bijection that depends on nothing. So they
   have its security (commitment_security), at the same number of shuffled messages.

   committed_shares: users split values and blinding factors between parties that add, and publish a
   commitment to every party's share. Who lacks one party's shares sees the chosen users' sum alone. *)
From mathcomp Require Import all_ssreflect all_fingroup all_algebra.
From Ikos Require Import Graph Shuffle.
Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.
Import Order.TTheory GRing.Theory Num.Theory GroupScope.
Local Open Scope ring_scope.

Section Commitment.
Variables (U S : finType) (own : S -> U) (G H : finZmodType) (P : {group {perm S}}).
Variables (exp : G -> H) (lg lgV : G -> G).
Hypothesis expD : forall a b, exp (a + b) = exp a + exp b.
Hypothesis lgD : forall a b, lg (a + b) = lg a + lg b.
Hypotheses (lgK : cancel lg lgV) (lgVK : cancel lgV lg).
Implicit Types (y : {ffun U -> G}) (s : {ffun S -> G}).
Local Notation viewT := ({ffun U -> G} * {ffun S -> G})%type.
Local Notation viewC := ({ffun U -> H} * {ffun S -> G})%type.

(* The blinding factor of user b is the sum of its shares s, which are uniform. *)
Definition commit y s : {ffun U -> H} := [ffun b => exp (y b) + exp (lg (usum own s b))].
Definition seen_committed y (o : {perm S} * {ffun S -> G}) : viewC := (commit y o.2, view o.1 o.2).
Definition choices := [set o : {perm S} * {ffun S -> G} | o.1 \in P].
Definition PrC y (T : {set viewC}) : rat :=
  #|[set o in choices | seen_committed y o \in T]|%:R / #|choices|%:R.

(* The bijection of views; it is one since exp is one-to-one, which privacy does not need. *)
Definition image (w : viewT) : viewC := ([ffun b => exp (w.1 b)], [ffun j => - lgV (w.2 j)]).

Lemma lgN a : lg (- a) = - lg a.
Proof.
have lg0 : lg 0 = 0 by apply: (addrI (lg 0)); rewrite -lgD !addr0.
by apply: (addrI (lg a)); rewrite -lgD !subrr.
Qed.

Lemma lg_usum s b : lg (usum own s b) = usum own [ffun j => lg (s j)] b.
Proof.
have lg0 : lg 0 = 0 by apply: (addrI (lg 0)); rewrite -lgD !addr0.
rewrite !ffunE (big_morph lg lgD lg0); by apply: eq_bigr => j _; rewrite ffunE.
Qed.

Theorem commitment_is_clear_share y (T : {set viewC}) :
  PrC y T = Pr own P y [set w | image w \in T].
Proof.
pose neg s : {ffun S -> G} := [ffun j => - lg (s j)].
pose h (o : {perm S} * {ffun S -> G}) : {perm S} * viewT := (o.1, (y - usum own (neg o.2), neg o.2)).
pose negV s : {ffun S -> G} := [ffun j => - lgV (s j)].
have lgVN a : lgV (- a) = - lgV a by rewrite -{1}[a]lgVK -lgN lgK.
have negK : cancel neg negV by move=> s; apply/ffunP => j; rewrite !ffunE lgVN opprK lgK.
have negVK : cancel negV neg by move=> s; apply/ffunP => j; rewrite !ffunE lgN opprK lgVK.
have hI : injective h by move=> [p s] [p' s'] [-> _ /(can_inj negK) ->].
have hview o : image (seen (h o)) = seen_committed y o.
  case: o => p s; rewrite /image /seen /seen_committed /=; congr (_, _); apply/ffunP => j; last first.
    by rewrite !ffunE lgVN opprK lgK.
  rewrite [LHS]ffunE [RHS]ffunE -expD; congr exp; rewrite lg_usum !ffunE -sumrN; congr (_ + _).
  by apply: eq_bigr => t _; rewrite !ffunE opprK.
have hout (F : viewC -> bool) :
    #|[set o in choices | F (seen_committed y o)]| = #|[set w in outcomes own P y | F (image (seen w))]|.
  rewrite -(card_imset _ hI); apply: eq_card => -[p [u s]].
  rewrite [RHS]inE /outcomes inE /=; apply/imsetP/idP => [[o]|/andP [/andP [hp /eqP e] hF]].
    by rewrite !inE => /andP [hp hF] [-> -> ->]; rewrite hp subrK eqxx -/(h o) hview hF.
  have eh : h (p, negV s) = (p, (u, s)) by rewrite /h /= negVK -e addrK.
  by exists (p, negV s); rewrite // !inE hp -hview eh.
rewrite /PrC /Pr (hout (fun w => w \in T)); congr (_%:R / _%:R).
  by apply: eq_card => w; rewrite !inE.
have -> : #|choices| = #|[set o in choices | true]| by apply: eq_card => o; rewrite !inE andbT.
by rewrite (hout (fun _ => true)); apply: eq_card => w; rewrite !inE andbT.
Qed.

Variable m : nat.
Hypothesis m_gt0 : (0 < m)%N.
Hypothesis own_m : forall i, #|[pred j | own j == i]| = m.
Hypothesis n_gt0 : (0 < #|U|)%N.

Corollary commitment_security (A : {set U}) y y' T :
  \sum_i y i = \sum_i y' i -> (forall i, i \notin A -> y i = y' i) ->
  (PrC y T - PrC y' T) ^+ 2 <=
  mean P (fun p => (split own p A)%:R * #|G|%:R ^+ (C own p).-1) / 2%:R.
Proof.
move=> e hA; rewrite !commitment_is_clear_share.
exact: (worst_case_security _ m_gt0 own_m n_gt0).
Qed.
End Commitment.

Section CommittedShares.
(* Honest users, parties, the party that the coalition lacks. *)
Variables (U I : finType) (G H : finZmodType) (i : I).
Variables (exp : G -> H) (lg lgV : G -> G).
Hypothesis expD : forall a b, exp (a + b) = exp a + exp b.
Hypothesis lgD : forall a b, lg (a + b) = lg a + lg b.
Hypotheses (lgK : cancel lg lgV) (lgVK : cancel lgV lg).
Local Notation sharing := {ffun U * I -> G}.
Implicit Types (y : {ffun U -> G}) (v s : sharing).

(* Shares v of values, which have the sums y, and shares s of blinding factors, which are uniform. *)
Definition committed y := [set o : sharing * sharing | [forall b, \sum_j o.1 (b, j) == y b]].

(* Commitments to all shares, and all shares of the other parties. *)
Definition published (o : sharing * sharing) : {ffun U * I -> H} * sharing * sharing :=
  ([ffun c => exp (o.1 c) + exp (lg (o.2 c))],
   [ffun c => if c.2 == i then 0 else o.1 c], [ffun c => if c.2 == i then 0 else o.2 c]).

Variable chosen : {ffun U * I -> H} * sharing * sharing -> {set U}.

(* With the answer of party i for the set that the coalition chooses. *)
Definition opened (o : sharing * sharing) := (published o,
  \sum_(b in chosen (published o)) o.1 (b, i), \sum_(b in chosen (published o)) o.2 (b, i)).

Theorem committed_shares y y' (T : pred ({ffun U * I -> H} * sharing * sharing * G * G)) :
  (forall w, \sum_(b in chosen w) y b = \sum_(b in chosen w) y' b) ->
  #|[set o in committed y | T (opened o)]| = #|[set o in committed y' | T (opened o)]|.
Proof.
move=> hs; pose d : sharing := [ffun c => if c.2 == i then y' c.1 - y c.1 else 0].
pose dV : sharing := [ffun c => - lgV (d c)].
pose h (o : sharing * sharing) := (o.1 + d, o.2 + dV).
have hI : injective h by move=> [v s] [v' s'] [/addIr -> /addIr ->].
have lg0 : lg 0 = 0 by apply: (addrI (lg 0)); rewrite -lgD !addr0.
have lgV0 : lgV 0 = 0 by rewrite -lg0 lgK.
have lgN a : lg (- a) = - lg a by apply: (addrI (lg a)); rewrite -lgD !subrr.
have hp o : published (h o) = published o.
  rewrite /published /h /=; congr (_, _, _); apply/ffunP => -[b j]; rewrite !ffunE /=.
  - by rewrite -!expD lgD lgN lgVK addrACA subrr addr0.
  - by case: (j == i); rewrite ?addr0.
  - by case: (j == i); rewrite // lgV0 subr0.
have ho o : opened (h o) = opened o.
  have dsum w : \sum_(b in chosen w) (y' b - y b) = 0 by rewrite sumrB hs subrr.
  rewrite /opened hp /h /=; congr (_, _, _).
    rewrite (eq_bigr (fun b => o.1 (b, i) + (y' b - y b))) => [|b _]; last by rewrite !ffunE /= eqxx.
    by rewrite big_split dsum /= addr0.
  rewrite (eq_bigr (fun b => o.2 (b, i) - lgV (y' b - y b))) => [|b _]; last by rewrite !ffunE /= eqxx.
  have lgVD a b : lgV (a + b) = lgV a + lgV b by rewrite -{1}[a]lgVK -{1}[b]lgVK -lgD lgK.
  by rewrite sumrB -(big_morph lgV lgVD lgV0) dsum lgV0 subr0.
rewrite -[LHS](card_imset _ hI); apply: eq_card => -[v s].
have sums (z : sharing) (b : U) : \sum_j (z + d) (b, j) = \sum_j z (b, j) + (y' b - y b).
  rewrite (eq_bigr (fun j => z (b, j) + d (b, j))) => [|j _]; last by rewrite ffunE.
  rewrite big_split; congr (_ + _); rewrite (bigD1 i) //= ffunE eqxx big1 ?addr0 //.
  by move=> j /negPf e; rewrite ffunE /= e.
have sumsE z : [forall b, \sum_j (z + d) (b, j) == y' b] = [forall b, \sum_j z (b, j) == y b].
  by apply: eq_forallb => b; rewrite sums addrCA -[X in _ == X]addr0 (inj_eq (addrI _)) subr_eq0.
rewrite [RHS]inE; apply/imsetP/idP => [[o]|].
  by rewrite !inE => /andP [h1 h2] ->; rewrite ho h2 andbT /h /= sumsE.
have e : h (v - d, s - dV) = (v, s) by rewrite /h /= !subrK.
rewrite -e ho inE /= sumsE => /andP [h1 h2]; exists (v - d, s - dV) => //.
by rewrite !inE /= h1.
Qed.
End CommittedShares.
