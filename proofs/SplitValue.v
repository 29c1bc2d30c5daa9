(* E[q^(C-1); A is split] as a number, for any set A of k users, with a clear share.

   split_value: any sequences f, c, e that satisfy the equations of "Exact values" give it as
   sum_{s<n} w(n,s) (1 - C(s-1,k-1)/C(n-1,k-1)) e_{n-s}. The rest of A is in the component of a given
   member, of s users, with that ratio of binomials.

   parallel_split, single_split: a calculator in binary numbers; if it answers Some (num, den), the
   expectation is num/den. parallel_split_security, single_split_security: what this bounds. *)
From Coq Require Import NArith.
From mathcomp Require Import all_ssreflect all_fingroup all_algebra.
From Ikos Require Import Graph Shuffle HockeyStick Colour Recursion Split Instances Numbers.
Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.
Import Order.TTheory GRing.Theory Num.Theory GroupScope.
Local Open Scope ring_scope.

(* The ring tactic, with inverses as indeterminates. *)
Ltac monomials := repeat match goal with |- context [GRing.inv ?x] => move: (GRing.inv x) => ? end; qring.

Section Together.
Variables (U : finType) (A : {set U}) (phi l a : nat -> rat).
Hypothesis n_gt0 : (0 < #|U|)%N.
Hypothesis A0 : A != set0.
Notation n := #|U|.
Notation k := #|A|.

(* The probability that A lies in a given component of s users that has a member of A. *)
Definition together s : rat := 'C(s.-1, k.-1)%:R / 'C(n.-1, k.-1)%:R.

Lemma choose_neq0 : 'C(n.-1, k.-1)%:R != 0 :> rat.
Proof.
rewrite pnatr_eq0 -lt0n bin_gt0 -ltnS !prednK ?card_gt0 //.
exact: max_card.
Qed.

Lemma choose_ratio s : (k <= s.+1)%N -> (s < n)%N ->
  'C(n - k, n - s.+1)%:R * (s.+1`!)%:R * ((n - s.+1)`!)%:R / ((n`!)%:R * s.+1%:R) =
  together s.+1 / n%:R :> rat.
Proof.
move=> hk hs; have k0 : (0 < k)%N by rewrite card_gt0.
have := @choose_identity n.-1 k.-1 s; rewrite -ltnS prednK // => /(_ hk).
rewrite -ltnS prednK // => /(_ hs) e.
have e1 : (n.-1 - k.-1 = n - k)%N by rewrite -subSS !prednK.
have e2 : (n.-1 - s = n - s.+1)%N by rewrite -subSS prednK.
move: e; rewrite e1 e2 => /(congr1 (fun z => z%:R : rat)); rewrite !natrM => e.
have z1 : (n`!)%:R * s.+1%:R != 0 :> rat by rewrite mulf_neq0 ?fact_neq0 // pnatr_eq0.
have z2 : 'C(n.-1, k.-1)%:R * n%:R != 0 :> rat.
  by rewrite mulf_neq0 ?choose_neq0 // pnatr_eq0 -lt0n.
apply: (mulIf z1); rewrite divfK // /together -[_ / _ / n%:R]mulrA -invfM.
by apply: (mulIf z2); rewrite [RHS]mulrAC divfK // e mulrA.
Qed.

Lemma together_sum :
  (\sum_(1 <= s < n.+1) l s * a (n - s)%N) / (n%:R * phi n) -
  (\sum_(r < (n - k).+1) 'C(n - k, r)%:R * (((n - r)`!)%:R * (l (n - r)%N / (n - r)%:R) *
    ((r`!)%:R * a r))) / ((n`!)%:R * phi n) =
  (\sum_(1 <= s < n) l s * a (n - s)%N * (1 - together s)) / (n%:R * phi n).
Proof.
have k0 : (0 < k)%N by rewrite card_gt0.
have kn : (k <= n)%N by apply: max_card.
have -> : (\sum_(r < (n - k).+1) 'C(n - k, r)%:R * (((n - r)`!)%:R * (l (n - r)%N / (n - r)%:R) *
    ((r`!)%:R * a r))) / ((n`!)%:R * phi n) =
    (\sum_(1 <= s < n.+1) l s * a (n - s)%N * together s) / (n%:R * phi n).
  rewrite [LHS]mulr_suml [RHS]mulr_suml [RHS](big_cat_nat _ (n := k)) //=; last exact: leqW.
  rewrite big_nat_cond [X in _ = X + _]big1 ?add0r => [|s /andP [/andP [h1 h2] _]]; last first.
    by rewrite /together bin_small ?mul0r ?mulr0 ?mul0r // -ltnS !prednK.
  rewrite -[X in \sum_(X <= _ < _) _]add0n big_addn subSn // big_mkord.
  rewrite (reindex_inj rev_ord_inj) /=; apply: eq_bigr => s _.
  have hs' : (s <= n - k)%N by rewrite -ltnS.
  rewrite subSS.
  have sk : (s + k <= n)%N by rewrite addnC -leq_subRL.
  have e : (n - (n - k - s) = s + k)%N.
    by rewrite -subnDA addnC subKn // addnC.
  have e' : (n - k - s = n - (s + k))%N by rewrite addnC subnDA.
  rewrite e e'; have [j hj] : exists j, (s + k = j.+1)%N.
    by exists (s + k).-1; rewrite prednK // addn_gt0 k0 orbT.
  have hk : (k <= j.+1)%N by rewrite -hj leq_addl.
  have hn : (j < n)%N by rewrite -hj.
  rewrite hj.
  have alg (c y v z b f u w : rat) :
      c * (y * (v * u^-1) * (z * b)) * (f * w)^-1 = c * y * z / (f * u) * (v * b / w).
    by rewrite !invfM; monomials.
  rewrite alg choose_ratio // [(n%:R * phi n)^-1]invfM; monomials.
rewrite -mulrBl; congr (_ / _); rewrite -sumrB big_nat_recr //= {2}/together.
rewrite divff ?choose_neq0 // mulr1 subrr addr0; apply: eq_big_nat => s _.
by rewrite mulrBr mulr1.
Qed.
End Together.

Section Value.
Variables (U S : finType) (own : S -> U) (P : {group {perm S}}) (W : nat -> nat).
Hypothesis n_gt0 : (0 < #|U|)%N.
Hypothesis W0 : W 0%N = 1%N.
Hypothesis hW : forall (Q : finType) (c : {ffun U -> Q}),
  #|preserving own P c| = (\prod_(k : Q) W (class_size c k))%N.
Variable A : {set U}.
Hypothesis A0 : A != set0.
Notation n := #|U|.
Notation phi := (weight W).
Notation C := (C own).
Notation k := #|A|.
Variables (l a : nat -> rat) (q : nat).
Hypothesis hl : forall k, (0 < k <= n)%N ->
  k%:R * phi k = \sum_(1 <= s < k.+1) l s * phi (k - s)%N.
Hypothesis a0 : a 0%N = 1.
Hypothesis ha : forall k, (0 < k <= n)%N ->
  k%:R * a k = q.+1%:R * \sum_(1 <= s < k.+1) l s * a (k - s)%N.

Theorem split_sum :
  mean P (fun p => (split own p A)%:R * q.+1%:R ^+ (C p).-1) =
  (\sum_(1 <= s < n) l s * a (n - s)%N * (1 - together A s)) / (n%:R * phi n).
Proof. by rewrite (split_recursion n_gt0 W0 hW A0 hl a0 ha) together_sum. Qed.
End Value.

(* "Exact values" of the documentation. *)
Section DocumentedSplit.
Variables (U S : finType) (own : S -> U) (P : {group {perm S}}) (W : nat -> nat).
Hypothesis n_gt0 : (0 < #|U|)%N.
Hypothesis W0 : W 0%N = 1%N.
Hypothesis W_gt0 : forall s, (0 < W s)%N.
Hypothesis hW : forall (Q : finType) (c : {ffun U -> Q}),
  #|preserving own P c| = (\prod_(k : Q) W (class_size c k))%N.
Variable A : {set U}.
Hypothesis A0 : A != set0.
Notation n := #|U|.
Notation k := #|A|.
Variables (f c e : nat -> rat) (lam : rat) (q : nat).
Hypothesis lam0 : lam != 0.
Hypothesis hf : forall k, f k = weight W k * lam ^+ k.
Hypothesis hc : forall k, (0 < k <= n)%N -> c k = 1 - \sum_(1 <= s < k) w f c k s.
Hypothesis e0 : e 0%N = 1.
Hypothesis he : forall k, (0 < k <= n)%N ->
  e k = q.+1%:R * \sum_(1 <= s < k.+1) w f c k s * e (k - s)%N.

Theorem split_value : mean P (fun p => (split own p A)%:R * q.+1%:R ^+ (C own p).-1) =
  \sum_(1 <= s < n) w f c n s * (1 - 'C(s.-1, k.-1)%:R / 'C(n.-1, k.-1)%:R) * e (n - s)%N.
Proof.
have phi0 j : weight W j != 0 by rewrite mulf_neq0 ?invr_eq0 ?fact_neq0 // pnatr_eq0 -lt0n.
have hlaw := law_clear n_gt0 W0 hW.
have a0 : a (weight W) e 0%N = 1 by rewrite /a e0 mulr1 (Recursion.phi0 hlaw).
have h1 := hl hlaw phi0 lam0 hf hc; have h2 := ha phi0 lam0 hf he.
rewrite (split_sum n_gt0 W0 hW A0 h1 a0 h2) mulr_suml.
apply: eq_big_nat => s /andP [_ hs]; rewrite (wE c lam0 hf) ?(ltnW hs) // /a /together.
by set t := 1 - _; monomials.
Qed.
End DocumentedSplit.

(* Numerator and denominator in binary numbers; the ratio of binomials is one of falling factorials. *)
Definition falling (s k : nat) : N := foldr (fun i t => N.mul (bin_of_nat (s - i)) t) 1%num (iota 0 k).

Definition split_of (n : nat) (q : N) (k : nat) (f : nat -> N) : option (N * N) :=
  let fs := table n f in let L := logarithm fs n in let A := powers q L n in
  let all := falling n.-1 k.-1 in
  if check n q fs L A then
    Some (foldr (fun s t => N.add (N.mul (N.mul (nth N0 L s) (nth N0 A (n - s)))
        (N.sub all (falling s.-1 k.-1))) t) N0 (iota 1 n.-1),
      N.mul (N.mul (bin_of_nat n) (nth N0 fs n)) all)
  else None.

Lemma falling_nat s k : nat_of_bin (falling s k) = (s ^_ k)%N.
Proof.
rewrite ffact_prod -(big_mkord xpredT (fun i => s - i)%N) /index_iota subn0 /falling.
elim: (iota 0 k) => [|i r IH]; first by rewrite big_nil.
by rewrite big_cons /= nat_of_mul_bin bin_of_natK IH.
Qed.

Lemma sub_nat (x y : N) : (nat_of_bin y <= nat_of_bin x)%N ->
  nat_of_bin (N.sub x y) = (nat_of_bin x - nat_of_bin y)%N.
Proof.
move=> h; have {1}-> : x = N.add (bin_of_nat (nat_of_bin x - nat_of_bin y)) y.
  by apply: nat_of_bin_inj; rewrite nat_of_add_bin bin_of_natK subnK.
by rewrite N.add_sub bin_of_natK.
Qed.

Section SplitSound.
Variables (U S : finType) (own : S -> U) (P : {group {perm S}}) (W : nat -> nat) (n : nat).
Hypothesis hn : #|U| = n.
Hypothesis n_gt0 : (0 < n)%N.
Hypothesis W0 : W 0%N = 1%N.
Hypothesis hW : forall (Q : finType) (c : {ffun U -> Q}),
  #|preserving own P c| = (\prod_(k : Q) W (class_size c k))%N.
Variables (A : {set U}) (f : nat -> N) (q num den : N) (q' : nat).
Hypothesis A0 : A != set0.
Hypothesis hf : forall s, W s = (nat_of_bin (f s) * s`!)%N.
Hypothesis hq : nat_of_bin q = q'.+1.
Notation k := #|A|.

Lemma falling_le s : (s < n)%N -> (s.-1 ^_ k.-1 <= n.-1 ^_ k.-1)%N.
Proof.
move=> hs; rewrite -!bin_ffact leq_mul2r leq_bin2l ?orbT //.
by rewrite -!subn1 leq_sub2r // ltnW.
Qed.

Theorem split_sound : split_of n q k f = Some (num, den) ->
  mean P (fun p => (split own p A)%:R * q'.+1%:R ^+ (C own p).-1) = num%:R / den%:R.
Proof.
rewrite /split_of; set L := logarithm _ _; set B := powers _ _ _.
case: ifP => // /andP [/allP h /N.eqb_spec hA0] [<- <-].
have hk j : (0 < j <= #|U|)%N -> j \in iota 1 n by rewrite mem_iota add1n ltnS hn.
pose l s : rat := (nth N0 L s : nat)%:R; pose a s : rat := (nth N0 B s : nat)%:R.
have hphi s : weight W s = (f s : nat)%:R by rewrite /weight hf natrM mulfK // fact_neq0.
have hl j : (0 < j <= #|U|)%N ->
    j%:R * weight W j = \sum_(1 <= s < j.+1) l s * weight W (j - s)%N.
  move=> hj; have /andP [/N.eqb_spec e _] := h j (hk j hj); have /andP [_ hj'] := hj.
  have := congr1 (fun b : N => (b : nat)%:R : rat) e.
  rewrite convolution_rat nat_of_mul_bin bin_of_natK natrM tableE -?hn // -hphi => ->.
  apply: eq_big_nat => s _; rewrite tableE ?hphi //.
  exact: leq_trans (leq_subr _ _) hj'.
have ha j : (0 < j <= #|U|)%N ->
    j%:R * a j = q'.+1%:R * \sum_(1 <= s < j.+1) l s * a (j - s)%N.
  move=> hj; have /andP [_ /N.eqb_spec e] := h j (hk j hj).
  have := congr1 (fun b : N => (b : nat)%:R : rat) e.
  by rewrite !nat_of_mul_bin !natrM bin_of_natK convolution_rat hq.
have a0 : a 0%N = 1 by rewrite /a hA0.
have U0 : (0 < #|U|)%N by rewrite hn.
rewrite (split_sum U0 W0 hW A0 hl a0 ha) !nat_of_mul_bin bin_of_natK !natrM tableE // -hphi falling_nat.
have F0 : (n.-1 ^_ k.-1)%:R != 0 :> rat.
  rewrite pnatr_eq0 -lt0n ffact_gt0 -ltnS !prednK ?card_gt0 // -hn; exact: max_card.
have r s : together A s = (s.-1 ^_ k.-1)%:R / (n.-1 ^_ k.-1)%:R.
  rewrite /together hn -!bin_ffact !natrM -mulf_div divff ?mulr1 //; exact: fact_neq0.
have div3 (x y z : rat) : x / (y * z) = x / y / z by rewrite invfM mulrA.
rewrite hn [RHS]div3; apply: (mulIf F0); rewrite [RHS]divfK // mulrAC; congr (_ / _).
rewrite mulr_suml /index_iota subn1.
have : all (fun s => s < n)%N (iota 1 n.-1).
  by apply/allP => s; rewrite mem_iota => /andP [_]; rewrite add1n prednK.
elim: (iota 1 n.-1) => [|s i IH] /=; first by rewrite big_nil.
case/andP => hs /IH {}IH.
rewrite big_cons nat_of_add_bin natrD IH !nat_of_mul_bin sub_nat !falling_nat ?falling_le //.
rewrite !natrM natrB ?falling_le //; congr (_ + _).
by rewrite -[LHS]mulrA mulrBl mul1r r divfK.
Qed.
End SplitSound.

Section SplitSecurity.
Variables (n m : nat) (G : finZmodType) (q num den : N) (A : {set 'I_n}).
Hypotheses (n_gt0 : (0 < n)%N) (m_gt0 : (0 < m)%N) (hq : nat_of_bin q = #|G|) (A0 : A != set0).
Notation k := #|A|.
Notation own := (@owner m [finType of 'I_n]).

(* m messages of each of n users through m parallel shufflers, and a clear share. *)
Theorem parallel_split : split_of n q k (parallel_f m) = Some (num, den) ->
  mean (parallel m _) (fun p => (split own p A)%:R * #|G|%:R ^+ (C own p).-1) = num%:R / den%:R.
Proof.
have [q' -> qE] := order hq; have W0 : parallel_weight m 0 = 1%N by rewrite /parallel_weight exp1n.
exact: (split_sound (card_ord n) n_gt0 W0 (@parallel_preserving m _) A0 (fun s => parallel_fP s m_gt0) qE).
Qed.

(* No event T of the joint view tells inputs apart by more that differ on A only. *)
Theorem parallel_split_security (x x' : {ffun 'I_n -> G}) T :
  split_of n q k (parallel_f m) = Some (num, den) ->
  \sum_i x i = \sum_i x' i -> (forall i, i \notin A -> x i = x' i) ->
  (Pr own (parallel m _) x T - Pr own (parallel m _) x' T) ^+ 2 <= num%:R / den%:R / 2%:R.
Proof.
move=> h e hA; rewrite -(parallel_split h).
exact: (worst_case_security _ m_gt0 (@owner_m m _) (users_gt0 n_gt0) T e hA).
Qed.

(* The same through a single shuffler. *)
Theorem single_split : split_of n q k (single_f m) = Some (num, den) ->
  mean (single _) (fun p => (split own p A)%:R * #|G|%:R ^+ (C own p).-1) = num%:R / den%:R.
Proof.
have [q' -> qE] := order hq; have W0 : single_weight m 0 = 1%N by rewrite /single_weight muln0.
exact: (split_sound (card_ord n) n_gt0 W0 (single_preserving (@owner_m m _)) A0 (fun s => single_fP s m_gt0) qE).
Qed.

Theorem single_split_security (x x' : {ffun 'I_n -> G}) T :
  split_of n q k (single_f m) = Some (num, den) ->
  \sum_i x i = \sum_i x' i -> (forall i, i \notin A -> x i = x' i) ->
  (Pr own (single _) x T - Pr own (single _) x' T) ^+ 2 <= num%:R / den%:R / 2%:R.
Proof.
move=> h e hA; rewrite -(single_split h).
exact: (worst_case_security _ m_gt0 (@owner_m m _) (users_gt0 n_gt0) T e hA).
Qed.
End SplitSecurity.

(* Does the calculator give the rational num / den? *)
Definition split_is (n : nat) (q : N) (k : nat) (f : nat -> N) (num den : N) : bool :=
  if split_of n q k f is Some (a, b) then N.eqb (N.mul a den) (N.mul num b) else false.

(* What rational_split(n, q, ShareGraph(m, shuffler, True), k) of ikos.counts.recursion prints. *)
Lemma split_values :
  [&& split_is 5 4 1 (parallel_f 4) 0 1, split_is 5 4 2 (parallel_f 4) 529 33750,
      split_is 5 4 5 (parallel_f 4) 313919 8640000, split_is 5 4 2 (single_f 4) 51752 27979875,
      split_is 7 9 3 (parallel_f 3) 1333259 10976000, split_is 7 9 4 (single_f 3) 1495862607 46088224000 &
      split_is 12 65536 2 (single_f 4) 914440463860684217270309729897924204904448
        3027544569995447682118915460859375].
Proof. by vm_compute. Qed.
