(* Natural numbers mantissa * 2^exponent, rounded up or down. *)
From Coq Require Import NArith Lia.
Unset Lia Cache.
Local Open Scope N_scope.

Definition dyadic : Type := N * N.
Definition value (x : dyadic) : N := fst x * 2 ^ snd x.

(* b is a, rounded up or down. *)
Definition rounds (up : bool) (a b : N) : Prop := if up then a <= b else b <= a.

Definition unit_up (up : bool) : N := if up then 1 else 0.

(* m / 2^d; numbers of at most d bits are not divided bit by bit. *)
Definition drop (up : bool) (m d : N) : N :=
  if d =? 0 then m else (if N.size m <=? d then 0 else N.shiftr m d) + unit_up up.

Definition round (up : bool) (p : N) (x : dyadic) : dyadic :=
  let d := N.size (fst x) - p in (drop up (fst x) d, snd x + d).

Definition mul (up : bool) (p : N) (x y : dyadic) : dyadic :=
  round up p (fst x * fst y, snd x + snd y).

Definition add (up : bool) (x y : dyadic) : dyadic :=
  if snd x <=? snd y then (drop up (fst x) (snd y - snd x) + fst y, snd y)
  else (fst x + drop up (fst y) (snd x - snd y), snd x).

(* x y + z; what is below the last bit of z is not multiplied. *)
Definition mul_add (up : bool) (p : N) (x y z : dyadic) : dyadic :=
  if N.size (fst x) + N.size (fst y) + (snd x + snd y) <=? snd z then (fst z + unit_up up, snd z)
  else add up (mul up p x y) z.

Definition sub (up : bool) (x y : dyadic) : dyadic :=
  let e := N.max (snd x) (snd y) in
  (drop up (fst x) (e - snd x) - drop (negb up) (fst y) (e - snd y), e).

Definition div (up : bool) (x : dyadic) (k : N) : dyadic :=
  let t := N.min (snd x) (N.size k) in
  ((N.shiftl (fst x) t + (if up then k - 1 else 0)) / k, snd x - t).

(* x 2^s <= y? *)
Definition leb (x : dyadic) (s : N) (y : dyadic) : bool :=
  let e := N.min (snd x + s) (snd y) in
  N.shiftl (fst x) (snd x + s - e) <=? N.shiftl (fst y) (snd y - e).

Lemma rounds_refl up a : rounds up a a.
Proof. destruct up; simpl; lia. Qed.

Lemma rounds_trans up a b c : rounds up a b -> rounds up b c -> rounds up a c.
Proof. destruct up; simpl; lia. Qed.

Lemma rounds_mul up a b c d : rounds up a b -> rounds up c d -> rounds up (a * c) (b * d).
Proof. destruct up; simpl; intros; apply N.mul_le_mono; assumption. Qed.

Lemma rounds_add up a b c d : rounds up a b -> rounds up c d -> rounds up (a + c) (b + d).
Proof. destruct up; simpl; lia. Qed.

Lemma rounds_sub up a b c d : rounds up a b -> rounds (negb up) c d -> rounds up (a - c) (b - d).
Proof. destruct up; simpl; lia. Qed.

Lemma power_neq0 d : 2 ^ d <> 0.
Proof. apply N.pow_nonzero; lia. Qed.

Lemma size_small m d : N.size m <= d -> m < 2 ^ d.
Proof.
intros h; apply N.lt_le_trans with (2 ^ N.size m); [apply N.size_gt|].
apply N.pow_le_mono_r; lia.
Qed.

Lemma drop_div m d : (if N.size m <=? d then 0 else N.shiftr m d) = m / 2 ^ d.
Proof.
rewrite N.shiftr_div_pow2; destruct (N.size m <=? d) eqn:e; [|reflexivity].
symmetry; apply N.div_small, size_small; apply N.leb_le, e.
Qed.

Lemma rounds_drop up m d : rounds up m (drop up m d * 2 ^ d).
Proof.
unfold drop; destruct (N.eqb_spec d 0) as [->|_].
  rewrite N.pow_0_r, N.mul_1_r; apply rounds_refl.
rewrite drop_div; assert (h := power_neq0 d).
assert (h1 := N.mul_div_le m _ h); assert (h2 := N.mul_succ_div_gt m _ h).
rewrite N.mul_comm in h1, h2.
destruct up; unfold rounds, unit_up; [rewrite N.add_1_r; lia|rewrite N.add_0_r; exact h1].
Qed.

Lemma value_split m d e : value (m, d + e) = m * 2 ^ d * 2 ^ e.
Proof. unfold value; simpl; rewrite N.pow_add_r; lia. Qed.

Lemma rounds_value up m e d : e <= d -> rounds up (value (m, e)) (value (drop up m (d - e), d)).
Proof.
intros h; replace d with (d - e + e) at 2 by lia; rewrite value_split.
apply rounds_mul; [apply rounds_drop|apply rounds_refl].
Qed.

Lemma rounds_round up p x : rounds up (value x) (value (round up p x)).
Proof.
destruct x as [m e]; unfold round; simpl.
replace (N.size m - p) with (e + (N.size m - p) - e) at 1 by lia.
apply rounds_value; lia.
Qed.

Lemma mul_rounds up p x y : rounds up (value x * value y) (value (mul up p x y)).
Proof.
apply rounds_trans with (2 := rounds_round _ _ _); destruct x, y; unfold value; simpl.
rewrite N.pow_add_r; match goal with |- rounds _ ?a ?b => replace b with a by ring end.
apply rounds_refl.
Qed.

Lemma value_add m m' e : value (m + m', e) = value (m, e) + value (m', e).
Proof. unfold value; simpl; ring. Qed.

Lemma add_rounds up x y : rounds up (value x + value y) (value (add up x y)).
Proof.
destruct x as [m e], y as [m' e']; unfold add; simpl; destruct (N.leb_spec e e') as [h|h];
  rewrite value_add; apply rounds_add; try apply rounds_refl; apply rounds_value; lia.
Qed.

Lemma mul_add_rounds up p x y z :
  rounds up (value x * value y + value z) (value (mul_add up p x y z)).
Proof.
unfold mul_add; destruct (N.leb_spec (N.size (fst x) + N.size (fst y) + (snd x + snd y)) (snd z)) as [h|h].
  destruct x as [m e], y as [m' e'], z as [k d]; simpl in h |- *; rewrite value_add.
  rewrite N.add_comm; apply rounds_add; [apply rounds_refl|].
  destruct up; unfold rounds, unit_up, value; simpl; [|lia].
  assert (h1 := size_small m _ (N.le_refl _)); assert (h2 := size_small m' _ (N.le_refl _)).
  assert (h3 : 2 ^ (N.size m + N.size m' + (e + e')) <= 2 ^ d) by (apply N.pow_le_mono_r; lia).
  rewrite !N.pow_add_r in h3.
  replace (m * 2 ^ e * (m' * 2 ^ e')) with (m * m' * (2 ^ e * 2 ^ e')) by ring.
  destruct (2 ^ d) eqn:E; [destruct (power_neq0 d E)|]; rewrite <- E in *.
  apply N.le_trans with (2 := h3); apply N.mul_le_mono_r, N.mul_le_mono; lia.
apply rounds_trans with (2 := add_rounds _ _ _).
apply rounds_add; [apply mul_rounds|apply rounds_refl].
Qed.

Lemma sub_rounds up x y : rounds up (value x - value y) (value (sub up x y)).
Proof.
destruct x as [m e], y as [m' e']; unfold sub; simpl.
set (d := N.max e e').
assert (h : forall a b, value (a - b, d) = value (a, d) - value (b, d)).
  intros a b; unfold value; simpl; apply N.mul_sub_distr_r.
rewrite h; apply rounds_sub; apply rounds_value; unfold d; lia.
Qed.

(* k times the quotient, up to the rounding. *)
Lemma div_rounds up x k : k <> 0 -> rounds up (value x) (k * value (div up x k)).
Proof.
intros k0; destruct x as [m e]; unfold div; simpl; set (t := N.min e (N.size k)).
rewrite N.shiftl_mul_pow2; unfold value; simpl.
replace (m * 2 ^ e) with (m * 2 ^ t * 2 ^ (e - t)).
2: { rewrite <- N.mul_assoc, <- N.pow_add_r; do 2 f_equal; unfold t; lia. }
rewrite N.mul_assoc; apply rounds_mul; [|apply rounds_refl].
set (a := m * 2 ^ t); destruct up; unfold rounds.
  assert (h := N.mul_succ_div_gt (a + (k - 1)) k k0); rewrite <- N.add_1_r, N.mul_add_distr_l in h; lia.
rewrite N.add_0_r; apply N.mul_div_le, k0.
Qed.

Lemma leb_sound x s y : leb x s y = true -> value x * 2 ^ s <= value y.
Proof.
destruct x as [m e], y as [m' e']; unfold leb, value; simpl.
set (d := N.min (e + s) e'); rewrite !N.shiftl_mul_pow2; intros h; apply N.leb_le in h.
rewrite <- N.mul_assoc, <- N.pow_add_r.
replace (e + s) with (e + s - d + d) by (unfold d; lia).
replace e' with (e' - d + d) by (unfold d; lia).
rewrite !N.pow_add_r, !N.mul_assoc; apply N.mul_le_mono_r, h.
Qed.
