(* The recursion of "Exact values" in directed rounding, which checks the same certificates faster. *)
From Coq Require Import NArith.
From mathcomp Require Import all_ssreflect all_fingroup all_algebra.
From Ikos Require Import Graph Shuffle NoClear Colour Recursion Instances Bipartite Numbers Certificate Dyadic Kinds.
Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.
Import Order.TTheory GRing.Theory Num.Theory GroupScope.

Notation zero := ((N0, N0) : dyadic).
Definition whole (k : N) : dyadic := (k, N0).

Section Recursion.
(* Bits of a mantissa; f_k / f_(k-1) as a fraction; users; order of the group. *)
Variables (p : N) (num den : N -> N) (q : N).

(* [:: f_k; ...; f_(k+j-1)] from x = f_(k-1) *)
Fixpoint weights up x k j : seq dyadic :=
  if j is i.+1 then
    let y := div up (mul up p (whole (num (bin_of_nat k))) x) (den (bin_of_nat k)) in y :: weights up y k.+1 i
  else [::].

Fixpoint dot up (xs ys : seq dyadic) : dyadic :=
  match xs, ys with
  | x :: xs', y :: ys' => mul_add up p x y (dot up xs' ys')
  | _, _ => zero
  end.

Definition log_step up k (f : dyadic) (rest : dyadic) : dyadic :=
  round up p (sub up (mul up p (whole (bin_of_nat k)) f) rest).

(* Lower and upper bounds, [:: l_k; ...; l_1], from those of f_1, f_2, ... *)
Fixpoint logs (fd fu : seq dyadic) k : seq dyadic * seq dyadic :=
  if k is j.+1 then
    let: (ld, lu) := logs fd fu j in
    (log_step false k (nth zero fd j) (dot true lu fu) :: ld,
     log_step true k (nth zero fu j) (dot false ld fd) :: lu)
  else ([::], [::]).

(* Upper bounds, [:: a_k; ...; a_0], from those of l_1, l_2, ... *)
Fixpoint moments (lu : seq dyadic) k : seq dyadic :=
  if k is j.+1 then
    let A := moments lu j in
    round true p (div true (mul true p (whole q) (dot true A lu)) (bin_of_nat k)) :: A
  else [:: whole 1].

(* Is sum_(s<n) l_s a_(n-s) / (n f_n) at most mantissa / 2^shift? *)
Definition rounded_check (n : nat) (mantissa shift : N) : bool :=
  let fd := weights false (whole 1) 1 n in let fu := weights true (whole 1) 1 n in
  let lu := rev (logs fd fu n).2 in
  leb (dot true (take n.-1 (moments lu n.-1)) lu) shift
    (mul false p (whole (N.mul mantissa (bin_of_nat n))) (nth zero fd n.-1)).
End Recursion.

Local Open Scope ring_scope.
Definition val (x : dyadic) : rat := (nat_of_bin (value x))%:R.
Definition bounds up x (r : rat) : bool := if up then r <= val x else val x <= r.
Arguments bounds : simpl never.

Lemma nat_of_Nle a b : N.le a b -> (nat_of_bin a <= nat_of_bin b)%N.
Proof. by move/N.leb_le/nat_of_le. Qed.

Lemma val_ge0 x : 0 <= val x. Proof. exact: ler0n. Qed.

Lemma power_rat d : (nat_of_bin (N.pow 2 d))%:R = 2%:R ^+ nat_of_bin d :> rat.
Proof.
rewrite -natrX; congr (_%:R); elim/N.peano_ind: d => // d IH.
by rewrite N.pow_succ_r' nat_of_mul_bin IH -expnS -N.add_1_l nat_of_add_bin.
Qed.

Lemma bounds_rounds up a x r : (if up then r <= (nat_of_bin a)%:R else (nat_of_bin a)%:R <= r) ->
  rounds up a (value x) -> bounds up x r.
Proof.
rewrite /bounds /val; case: up => h /nat_of_Nle e; first by rewrite (le_trans h) // ler_nat.
by rewrite (le_trans _ h) // ler_nat.
Qed.

Lemma val_whole k : val (whole k) = (nat_of_bin k)%:R.
Proof. by rewrite /val /value N.mul_1_r. Qed.

Lemma bounds_whole up k : bounds up (whole k) (nat_of_bin k)%:R.
Proof. by rewrite /bounds val_whole; case: up. Qed.

Lemma bounds_round up p x r : bounds up x r -> bounds up (round up p x) r.
Proof. by move=> h; apply: (bounds_rounds h); apply: rounds_round. Qed.

Lemma bounds_prod up x y r s : 0 <= r -> 0 <= s -> bounds up x r -> bounds up y s ->
  if up then r * s <= val x * val y else val x * val y <= r * s.
Proof. by case: up => r0 s0 h1 h2; rewrite ler_pmul ?val_ge0. Qed.

Lemma bounds_mul up p x y r s : 0 <= r -> 0 <= s -> bounds up x r -> bounds up y s ->
  bounds up (mul up p x y) (r * s).
Proof.
move=> r0 s0 h1 h2; have := bounds_prod r0 s0 h1 h2; rewrite -natrM -nat_of_mul_bin => h.
by apply: (bounds_rounds h); apply: mul_rounds.
Qed.

Lemma bounds_mul_add up p x y z r s t : 0 <= r -> 0 <= s ->
  bounds up x r -> bounds up y s -> bounds up z t -> bounds up (mul_add up p x y z) (r * s + t).
Proof.
move=> r0 s0 h1 h2 h3; have h4 := bounds_prod r0 s0 h1 h2.
have h : if up then r * s + t <= (N.add (N.mul (value x) (value y)) (value z))%:R
         else (N.add (N.mul (value x) (value y)) (value z))%:R <= r * s + t.
  rewrite nat_of_add_bin nat_of_mul_bin natrD natrM.
  by case: up h1 h2 h3 h4 => _ _ h3 h4; apply: ler_add.
by apply: (bounds_rounds h); apply: mul_add_rounds.
Qed.

Lemma bounds_sub up x y r s : 0 <= r - s -> bounds up x r -> bounds (~~ up) y s ->
  bounds up (sub up x y) (r - s).
Proof.
move=> rs h1 h2; apply: (@bounds_rounds up (N.sub (value x) (value y))); last exact: sub_rounds.
case: (N.le_gt_cases (value y) (value x)) => h.
  have e : (value x : nat) = (N.sub (value x) (value y) + value y)%N.
    by rewrite -nat_of_add_bin N.sub_add.
  have -> : (N.sub (value x) (value y))%:R = val x - val y by rewrite {1}/val e natrD addrK.
  by case: up h1 h2 => h1 h2; apply: ler_sub.
have -> : N.sub (value x) (value y) = N0 by apply/N.sub_0_le/N.lt_le_incl.
have {}h : val x <= val y by rewrite ler_nat; apply/nat_of_Nle/N.lt_le_incl.
case: up h1 h2 => h1 h2 //; rewrite subr_le0; apply: le_trans h1 _; exact: le_trans h h2.
Qed.

Lemma bounds_div up x r k : (0 < nat_of_bin k)%N -> bounds up x r ->
  bounds up (div up x k) (r / (nat_of_bin k)%:R).
Proof.
move=> k0 h; have k1 : k <> N0 by move=> e; rewrite e in k0.
have := div_rounds up x k k1; have k2 : (0 : rat) < k%:R by rewrite ltr0n.
case: up h => h /nat_of_Nle; rewrite nat_of_mul_bin -(ler_nat rat_numDomainType) natrM => e.
  by rewrite /bounds ler_pdivr_mulr // mulrC (le_trans h).
by rewrite /bounds ler_pdivl_mulr // mulrC (le_trans e).
Qed.

Lemma bounds_dot up p xs ys (f g : nat -> rat) :
  (forall i, (i < size xs)%N -> 0 <= f i /\ bounds up (nth zero xs i) (f i)) ->
  (forall i, (i < size xs)%N -> 0 <= g i /\ bounds up (nth zero ys i) (g i)) ->
  (size xs <= size ys)%N -> bounds up (dot p up xs ys) (\sum_(i < size xs) f i * g i).
Proof.
elim: xs ys f g => [|x xs IH] [|y ys] f g hf hg //= hs.
- by rewrite big_ord0 /bounds /val; case: (up).
- by rewrite big_ord0 /bounds /val; case: (up).
rewrite big_ord_recl; have [f0 hx] := hf 0%N isT; have [g0 hy] := hg 0%N isT.
apply: bounds_mul_add => //.
apply: (IH ys (f \o S) (g \o S)) => // i hi; [exact: (hf i.+1)|exact: (hg i.+1)].
Qed.

Lemma sum_descending (g h : nat -> rat) j :
  \sum_(1 <= s < j.+1) g s * h (j.+1 - s)%N = \sum_(i < j) g (j - i)%N * h i.+1.
Proof.
rewrite big_nat_rev big_add1 /= big_mkord; apply: eq_bigr => -[i hi] _ /=.
by rewrite !add1n !subSS subSn ?leq_subr // subKn // ltnW.
Qed.

Lemma sum_ascending (g h : nat -> rat) j k : (k <= j.+1)%N ->
  \sum_(1 <= s < k.+1) g s * h (j.+1 - s)%N = \sum_(i < k) h (j - i)%N * g i.+1.
Proof. by move=> _; rewrite big_add1 /= big_mkord; apply: eq_bigr => i _; rewrite subSS mulrC. Qed.

Section Sound.
Variables (p : N) (num den : N -> N) (q : N).
Variables (phi l a : nat -> rat).
Hypothesis phi0 : phi 0%N = 1.
Hypothesis den_gt0 : forall k, (0 < nat_of_bin k)%N -> (0 < nat_of_bin (den k))%N.
Hypothesis phiS : forall k, phi k.+1 = (nat_of_bin (num (bin_of_nat k.+1)))%:R * phi k / (nat_of_bin (den (bin_of_nat k.+1)))%:R.
Hypothesis hl : forall k, (0 < k)%N -> k%:R * phi k = \sum_(1 <= s < k.+1) l s * phi (k - s)%N.
Hypothesis l_ge0 : forall k, (0 < k)%N -> 0 <= l k.
Hypothesis a0 : a 0%N = 1.
Variable n : nat.
Hypothesis ha : forall k, (0 < k <= n)%N ->
  k%:R * a k = (nat_of_bin q)%:R * \sum_(1 <= s < k.+1) l s * a (k - s)%N.

Lemma phi_ge0 k : 0 <= phi k.
Proof.
by elim: k => [|k IH]; rewrite ?phi0 ?ler01 // phiS divr_ge0 ?mulr_ge0 ?ler0n.
Qed.

Lemma a_ge0 k : (k <= n)%N -> 0 <= a k.
Proof.
elim/ltn_ind: k => -[|k] IH hk; first by rewrite a0 ler01.
have k0 : 0 < (k.+1)%:R :> rat by rewrite ltr0n.
rewrite -(pmulr_rge0 _ k0) ha // mulr_ge0 ?ler0n // big_nat_cond sumr_ge0 // => s.
case/andP => /andP [s0 hs] _; rewrite mulr_ge0 ?l_ge0 // IH ?ltn_subrL ?s0 //.
exact: leq_trans (leq_subr _ _) hk.
Qed.

Lemma size_weights up x k j : size (weights p num den up x k j) = j.
Proof. by elim: j x k => //= j IH x k; rewrite IH. Qed.

Lemma weights_bounds up x k j i : bounds up x (phi k) -> (i < j)%N ->
  bounds up (nth zero (weights p num den up x k.+1 j) i) (phi (k + i.+1)%N).
Proof.
elim: j x k i => // j IH x k i hx hi /=.
have h : bounds up (div up (mul up p (whole (num (bin_of_nat k.+1))) x) (den (bin_of_nat k.+1))) (phi k.+1).
  rewrite phiS; apply: bounds_div; first by apply: den_gt0; rewrite bin_of_natK.
  by apply: bounds_mul hx; [exact: ler0n|exact: phi_ge0|exact: bounds_whole].
by case: i hi => [|i] hi; rewrite ?addn1 //= addnS -addSn; apply: IH.
Qed.

Let f up := weights p num den up (whole 1) 1 n.

Lemma f_bounds up i : (i < n)%N -> bounds up (nth zero (f up) i) (phi i.+1).
Proof.
move=> hi; rewrite -(add0n i.+1); apply: weights_bounds hi.
by rewrite phi0; apply: (bounds_whole up 1).
Qed.

Lemma log_recursion k : l k.+1 = k.+1%:R * phi k.+1 - \sum_(1 <= s < k.+1) l s * phi (k.+1 - s)%N.
Proof. by rewrite hl // big_nat_recr //= subnn phi0 mulr1 addrAC subrr add0r. Qed.

Lemma log_bounds k : (k <= n)%N ->
  [/\ size (logs p (f false) (f true) k).1 = k, size (logs p (f false) (f true) k).2 = k,
   forall i, (i < k)%N -> bounds false (nth zero (logs p (f false) (f true) k).1 i) (l (k - i)%N) &
   forall i, (i < k)%N -> bounds true (nth zero (logs p (f false) (f true) k).2 i) (l (k - i)%N)].
Proof.
elim: k => [//|k IH] hk; have := IH (ltnW hk); rewrite /=.
case: (logs p (f false) (f true) k) => ld lu /= [sd su hd hu].
have sum up (xs : seq dyadic) : size xs = k ->
    (forall i, (i < k)%N -> bounds up (nth zero xs i) (l (k - i)%N)) ->
    bounds up (dot p up xs (f up)) (\sum_(1 <= s < k.+1) l s * phi (k.+1 - s)%N).
  move=> sx hx; rewrite sum_descending -sx.
  apply: (@bounds_dot _ _ _ _ (fun i => l (size xs - i)%N) (fun i => phi i.+1));
    rewrite sx ?size_weights; last exact: ltnW.
  - by move=> i hi; split; [apply: l_ge0; rewrite subn_gt0|exact: hx].
  by move=> i hi; split; [exact: phi_ge0|apply: f_bounds; exact: ltn_trans hk].
have step up rest : bounds (~~ up) rest (\sum_(1 <= s < k.+1) l s * phi (k.+1 - s)%N) ->
    bounds up (log_step p up k.+1 (nth zero (f up) k) rest) (l k.+1).
  move=> h; have l0 : 0 <= l k.+1 by apply: l_ge0.
  rewrite log_recursion in l0 *; apply: bounds_round; apply: bounds_sub => //.
  have e : nat_of_bin (bin_of_nat k.+1) = k.+1 := bin_of_natK _.
  have := bounds_whole up (bin_of_nat k.+1); rewrite e => hw.
  by apply: bounds_mul => //; [exact: ler0n|exact: phi_ge0|exact: f_bounds].
split; rewrite ?sd ?su //= => -[|i] hi; rewrite ?subn0 ?subSS /=.
- by apply: step; exact: sum.
- exact: hd.
- by apply: step; exact: sum.
- exact: hu.
Qed.

Let lu := rev (logs p (f false) (f true) n).2.

Lemma size_lu : size lu = n.
Proof. by rewrite size_rev; case: (log_bounds (leqnn n)). Qed.

Lemma lu_bounds i : (i < n)%N -> bounds true (nth zero lu i) (l i.+1).
Proof.
move=> hi; have [_ s _ h] := log_bounds (leqnn n).
rewrite nth_rev s // -[X in l X](subKn hi); apply: h.
by rewrite ltn_subrL (leq_trans _ hi).
Qed.

Lemma momentsS k : moments p q lu k.+1 =
  round true p (div true (mul true p (whole q) (dot p true (moments p q lu k) lu)) (bin_of_nat k.+1))
    :: moments p q lu k.
Proof. by []. Qed.

Lemma moments_bounds k : (k <= n)%N ->
  size (moments p q lu k) = k.+1 /\
  forall i, (i <= k)%N -> bounds true (nth zero (moments p q lu k) i) (a (k - i)%N).
Proof.
elim: k => [|k IH] hk.
  split=> // i; rewrite leqn0 => /eqP ->; rewrite subnn a0; exact: (bounds_whole true 1).
have [s h] := IH (ltnW hk); rewrite momentsS; split; first by rewrite /= s.
case=> [|i] hi; rewrite ?subn0 ?subSS; last exact: h.
apply: bounds_round; have k0 : k.+1%:R != 0 :> rat by rewrite pnatr_eq0.
have -> : a k.+1 = q%:R * (\sum_(1 <= s < k.+2) l s * a (k.+1 - s)%N) / k.+1%:R.
  by rewrite -ha ?hk // mulrAC mulfV // mul1r.
rewrite -[X in _ / X%:R](bin_of_natK k.+1); apply: bounds_div; first by rewrite bin_of_natK.
apply: bounds_mul; rewrite ?ler0n //; last 2 first.
- exact: bounds_whole.
- rewrite sum_ascending // -s; apply: (@bounds_dot _ _ _ _ (fun i => a (k - i)%N) (fun i => l i.+1)).
  + by move=> j; rewrite s ltnS => hj; split; [rewrite a_ge0 // (leq_trans (leq_subr _ _)) // ltnW|exact: h].
  + by move=> j; rewrite s ltnS => hj; split; [exact: l_ge0|apply: lu_bounds; exact: leq_trans hk].
  by rewrite s size_lu.
rewrite big_nat_cond sumr_ge0 // => j /andP [/andP [j0 hj] _].
by rewrite mulr_ge0 ?l_ge0 // a_ge0 // (leq_trans (leq_subr _ _)).
Qed.

Theorem rounded_check_sound mantissa shift : (0 < n)%N -> 0 < phi n ->
  rounded_check p num den q n mantissa shift ->
  (\sum_(1 <= s < n) l s * a (n - s)%N) / (n%:R * phi n) <= (nat_of_bin mantissa)%:R / 2%:R ^+ nat_of_bin shift.
Proof.
move=> n0 hphi; rewrite /rounded_check -/(f true) -/(f false) -/lu => /leb_sound /nat_of_Nle.
set x := dot _ _ _ _; set y := mul _ _ _ _ => h.
have [s hm] := moments_bounds (leq_pred n).
have hx : bounds true x (\sum_(1 <= s < n) l s * a (n - s)%N).
  have ht : size (take n.-1 (moments p q lu n.-1)) = n.-1 by rewrite size_take s leqnn.
  rewrite -{1 2}(prednK n0) sum_ascending ?leqnSn //.
  have := @bounds_dot true p (take n.-1 (moments p q lu n.-1)) lu (fun i => a (n.-1 - i)%N) (fun i => l i.+1).
  rewrite ht; apply.
  - move=> i hi; rewrite nth_take // a_ge0 ?(leq_trans (leq_subr _ _)) ?leq_pred //.
    by split=> //; apply: hm; apply: ltnW.
  - by move=> i hi; split; [exact: l_ge0|apply: lu_bounds; exact: leq_trans (leq_pred n)].
  by rewrite size_lu leq_pred.
have hy : bounds false y (mantissa%:R * n%:R * phi n).
  rewrite -natrM -[X in (_ * X)%N](bin_of_natK n) -nat_of_mul_bin.
  apply: bounds_mul; rewrite ?ler0n ?(ltW hphi) //; first exact: bounds_whole.
  by rewrite -{2}(prednK n0); apply: f_bounds; rewrite prednK.
have z : 0 < n%:R * phi n by rewrite mulr_gt0 ?ltr0n.
have w : (0 : rat) < 2%:R ^+ nat_of_bin shift by rewrite exprn_gt0 ?ltr0n.
rewrite ler_pdivr_mulr // mulrAC ler_pdivl_mulr // mulrA (le_trans _ hy) //.
apply: le_trans (_ : val x * 2%:R ^+ nat_of_bin shift <= _); first by rewrite ler_wpmul2r ?(ltW w).
by move: h; rewrite -(ler_nat rat_numDomainType) nat_of_mul_bin natrM power_rat.
Qed.
End Sound.

Local Close Scope ring_scope.

(* Is E[q^(C-1); C >= 2] at most mantissa / 2^shift, by p bits? *)
Definition certified_rounded (p : N) (one clear : bool) (n m : nat) (q mantissa shift : N) : bool :=
  [&& 0 < n, 0 < m & rounded_check p (growth one m) (divisor clear) q n mantissa shift].

Local Open Scope ring_scope.

Section Certified.
Variables (p : N) (one clear : bool) (n m : nat) (q mantissa shift : N).

Theorem rounded_divergence : (0 < nat_of_bin q)%N ->
  certified_rounded p one clear n m q mantissa shift ->
  divergence one clear m n q <= mantissa%:R / 2%:R ^+ shift.
Proof.
move=> q0 /and3P [n0 m0 h]; rewrite divergenceE //.
apply: rounded_check_sound h => //.
- exact: phi0.
- exact: divisor_gt0.
- exact: phiS.
- exact: l_rec.
- by move=> k /(l_probability one clear m0) /andP [].
- exact: a_0.
- exact: a_rec.
exact: phi_gt0.
Qed.

Variable G : finZmodType.
Hypothesis hq : nat_of_bin q = #|G|.

Lemma half_rounded (t : rat) : certified_rounded p one clear n m q mantissa shift ->
  ((0 < m)%N -> (0 < n)%N -> t <= divergence one clear m n #|G| / 2%:R) ->
  t <= mantissa%:R / 2%:R ^+ shift / 2%:R.
Proof.
move=> h ht; have /and3P [n0 m0 _] := h; apply: le_trans (ht m0 n0) _.
rewrite ler_wpmul2r ?invr_ge0 ?ler0n // -hq rounded_divergence //.
by rewrite hq q_gt0.
Qed.
End Certified.

Section CertifiedSecurity.
Variables (p : N) (one : bool) (n m : nat) (G : finZmodType) (q mantissa shift : N).
Hypothesis hq : nat_of_bin q = #|G|.

Theorem rounded_security (x x' : {ffun 'I_n -> G}) T :
  certified_rounded p one true n m q mantissa shift -> \sum_i x i = \sum_i x' i ->
  (Pr (@owner m _) (shufflers one m n) x T - Pr (@owner m _) (shufflers one m n) x' T) ^+ 2 <=
  mantissa%:R / 2%:R ^+ shift / 2%:R.
Proof. by move=> h e; apply: (half_rounded hq h) => m0 n0; apply: security. Qed.

Theorem rounded_security_no_clear (x x' : {ffun 'I_n -> G}) T :
  certified_rounded p one false n m q mantissa shift -> \sum_i x i = \sum_i x' i ->
  (Pr2 (@owner m _) (shufflers one m n) x T - Pr2 (@owner m _) (shufflers one m n) x' T) ^+ 2 <=
  mantissa%:R / 2%:R ^+ shift / 2%:R.
Proof. by move=> h e; apply: (half_rounded hq h) => m0 n0; apply: security_no_clear. Qed.
End CertifiedSecurity.

(* certify(100, 2**64, 20), and 21 without a clear share, to 64 bits; certify(30, 2**20, 9) to 256 bits. *)
Example certificate_100_64_20_parallel : certified_rounded 96 false true 100 20 18446744073709551616
  15692754338466701914 126.
Proof. by vm_compute. Qed.

Example certificate_100_64_21_parallel_no_clear : certified_rounded 96 false false 100 21 18446744073709551616
  15692754338466701914 126.
Proof. by vm_compute. Qed.

Example certificate_100_64_20_single : certified_rounded 96 true true 100 20 18446744073709551616
  13438985725723028733 151.
Proof. by vm_compute. Qed.

Example certificate_100_64_21_single_no_clear : certified_rounded 96 true false 100 21 18446744073709551616
  10180972052369441430 152.
Proof. by vm_compute. Qed.

Example certificate_30_20_9_rounded : certified_rounded 288 false true 30 9 1048576
  97023991784202550004894241789796573509286183048924124784577554725554916023831 275.
Proof. by vm_compute. Qed.

(* Tight to the last bits: three less is false. *)
Example certificate_5_4_4_rounded : certified_rounded 288 true true 5 4 4
  65970421809998797918554443309838267001261883230911768174124552522020624643379 263 &&
  ~~ certified_rounded 288 true true 5 4 4
  65970421809998797918554443309838267001261883230911768174124552522020624643376 263.
Proof. by vm_compute. Qed.
