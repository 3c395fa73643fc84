"""Every name of the original's language and layers is there, or refused with a reason."""

import importlib
import pkgutil

import pytest

import mtf_models
from mtf_models import layers
from mtf_models.mesh import initializers

LANGUAGE = """
slicewise cwise identity sin cos square sqrt rsqrt log exp sigmoid tanh negative logical_not
softplus
reciprocal relu leaky_relu sign abs cast to_float to_bfloat16 to_int32 swish gelu elu selu
squared_relu add sub multiply divide minimum maximum pow floordiv mod less greater less_equal
greater_equal equal not_equal logical_and logical_or add_n where broadcast reshape transpose
rename_dimension replace_dimensions combined_dimension reduce_sum reduce_mean reduce_max reduce_min
reduce_all reduce_any einsum matmul reduce_logsumexp log_softmax softmax top_1 argmax top_k
nth_largest_element nth_smallest_element sample_with_temperature gather one_hot cumsum range
mtf_range constant zeros ones zeros_like ones_like concat split stack unstack slice pad shift
dynamic_shift halo_exchange left_halo_exchange pool_tensor_1d stride_tensor_1d reduce_first
stop_gradient depend Print scalar_summary log_variable_sizes pretty_print_counters random_uniform
random_normal dropout while_loop gradients custom_gradient recompute_grad serialize_training_step
tensor_dim_to_mesh_dim_size tensor_dim_to_size_per_split pnum_to_processor_coordinates
processor_coordinates_to_pnum pnum_to_group processor_groups list_product transpose_list_of_lists
parallel is_subsequence verify_no_new_dims get_variable import_tf_tensor import_fully_replicated
import_laid_out_tensor anonymize conv1d conv2d conv3d conv2d_transpose conv3d_transpose
""".split()

LAYERS = """
unit_scaling_convention us_einsum dense get_dense_kernel_weights dense_product
VarianceScalingInitializer layer_norm batch_norm softmax_cross_entropy_with_logits
sigmoid_cross_entropy_with_logits weights_nonzero dense_relu_dense conv1d separable_conv1d conv2d
conv3d conv2d_with_blocks conv3d_with_blocks conv2d_transpose conv3d_transpose
conv2d_transpose_with_blocks conv3d_transpose_with_blocks max_pool2d avg_pool2d max_pool3d
avg_pool3d
local_self_attention_spatial_blocks local_2d_self_attention_spatial_blocks local_1d_halo_exchange
local_2d_halo_exchange masked_local_attention_1d masked_local_attention_1d_incremental
multihead_attention_vars multihead_attention_params dot_product_attention multihead_attention
multihead_self_attention_incremental multihead_encdec_attention_incremental
multihead_self_attention_memory_compressed compress_mean attention_mask_ignore_padding
attention_mask_autoregressive attention_mask_same_segment attention_bias_local_block
attention_bias_local_2d_block multiplicative_jitter rename_length_to_memory_length embedding_weights
embedding reversible_half_residual_and_swap clip_activation_gradient annealed_dropout corr
""".split()


@pytest.fixture(scope="module")
def guide(repository):
    return (repository / "docs" / "language.md").read_text("utf-8")


def test_the_language_is_whole(guide):
    for name in LANGUAGE:
        there = hasattr(mtf_models, name)
        assert there or f"`{name}`" in guide, name


def test_the_layers_are_whole(guide):
    found = pkgutil.walk_packages(layers.__path__, f"{layers.__name__}.")
    modules = [initializers, *(importlib.import_module(m.name) for m in found)]
    for name in LAYERS:
        assert any(hasattr(m, name) for m in modules) or f"`{name}`" in guide, name
