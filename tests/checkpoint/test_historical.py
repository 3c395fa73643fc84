from mtf_models.checkpoint.historical import stored_names

OLD = [
    "encoder/block_000/layer_000/layer_norm/scale",
    "encoder/block_000/layer_000/layer_norm/scale_slot_v",
    "encoder/final_layer_norm/scale",
    "encoder/block_000/layer_000/SelfAttention/q",
]
NEW = [
    "encoder/block_000/layer_000/rms_norm/scale",
    "encoder/block_000/layer_000/rms_norm/scale_slot_v",
    "encoder/rms_norm/scale",
    "encoder/block_000/layer_000/SelfAttention/q",
]


def test_norms_are_found_under_either_name():
    assert stored_names(NEW, OLD) == dict(zip(NEW, OLD, strict=True))
    assert stored_names(OLD, NEW) == dict(zip(OLD, NEW, strict=True))


def test_a_variable_under_its_own_name_is_taken_from_there():
    both = ["query/layer_norm/scale", "query/rms_norm/scale"]
    assert stored_names(both, both) == {name: name for name in both}
    assert stored_names(["a/rms_norm/scale"], ["a/layer_norm/scale", "a/rms_norm/scale"]) == {
        "a/rms_norm/scale": "a/rms_norm/scale"
    }


def test_which_of_two_is_meant_is_not_guessed():
    stored = ["encoder/layer_norm/scale", "encoder/final_layer_norm/scale"]
    assert stored_names(["encoder/rms_norm/scale"], stored) == {}


def test_routers_are_found_under_their_former_names():
    # In 2020 "rand_1" was today's "switch" and "switch" today's "ntlb".
    old = ["a/MoE1D/rand_1_gating/kernel", "b/MoE1D/switch_gating/kernel"]
    new = ["a/MoE1D/switch_gating/kernel", "b/MoE1D/ntlb_gating/kernel"]
    assert stored_names(new, old) == dict(zip(new, old, strict=True))
    assert stored_names(["a/MoE1D/top_2_gating/kernel"], old) == {}
    slot = ["b/MoE1D/ntlb_gating/kernel_slot_v"]
    assert stored_names(slot, ["b/MoE1D/switch_gating/kernel_slot_v"]) == {
        slot[0]: "b/MoE1D/switch_gating/kernel_slot_v"
    }
