import numpy as np
import pytest
import tensorflow as tf

import mtf_models as mtf
from mtf_models.errors import ShapeError
from mtf_models.testing import ONE_DEVICE, check_op, covering, run_op

SHAPE = mtf.Shape("a:8,b:16,c:64")
LARGE = mtf.Shape("a:64,b:256")
SEED = (7, 11)


def seeded(function, seed=SEED):
    """A function of tensors whose random numbers follow from a seed alone."""

    def run(*tensors):
        with mtf.random_stream(mtf.RandomStream(seed)):
            return function(*tensors)

    return run


def drawn(function, shape=LARGE, **options):
    with mtf.random_stream(mtf.RandomStream(SEED)):
        return function(mtf.Mesh(), shape, **options).numpy()


class TestLayouts:
    """One seed gives one device's numbers on every layout, eager and compiled."""

    ONES = {"x": (SHAPE, np.ones(SHAPE.to_integer_list))}

    @pytest.mark.parametrize(
        "function",
        [
            lambda x: [mtf.random_uniform(x.mesh, x.shape), mtf.random_normal(x.mesh, x.shape)],
            lambda x: mtf.random_uniform(x.mesh, x.shape, maxval=1000, dtype=tf.int32),
            lambda x: [mtf.dropout(x, True, rate=0.3), mtf.dropout(x * 2, True, keep_prob=0.7)],
            lambda x: mtf.dropout(x, True, rate=0.3, noise_shape="c:64,a:8"),
        ],
    )
    def test_numbers_are_equal(self, function):
        placements = covering([SHAPE])
        check_op(
            seeded(function), self.ONES, rtol=0, atol=0, placements=placements, differentiate=[]
        )

    def test_a_seed_may_be_a_tensor(self):
        def function(seed):
            with mtf.random_stream(mtf.RandomStream(seed.value)):
                return mtf.random_uniform(seed.mesh, SHAPE)

        expected = run_op(
            seeded(lambda x: mtf.random_uniform(x.mesh, SHAPE)), self.ONES, ONE_DEVICE
        ).values[0]
        check_op(
            function,
            {"seed": ("two:2", np.int32(SEED))},
            lambda seed: expected,
            rtol=0,
            atol=0,
            placements=covering([SHAPE]),
        )


class TestStream:
    def test_each_draw_has_numbers_of_its_own(self):
        with mtf.random_stream(mtf.RandomStream(SEED)):
            draws = [mtf.random_uniform(mtf.Mesh(), "a:4").numpy().tobytes() for _ in range(200)]
        assert len(set(draws)) == 200

    def test_seeds_and_steps_differ(self):
        found = set()
        for seed in [(0, 0), (0, 1), (1, 0), (1, 1), (2, 1), (1, 2)]:
            with mtf.random_stream(mtf.RandomStream(seed)):
                found |= {mtf.random_uniform(mtf.Mesh(), "a:4").numpy().tobytes() for _ in range(9)}
        assert len(found) == 6 * 9

    def test_streams_nest(self):
        outer, inner = mtf.RandomStream((1, 1)), mtf.RandomStream((1, 1))
        with mtf.random_stream(outer):
            first = mtf.random_uniform(mtf.Mesh(), "a:4").numpy()
            with mtf.random_stream(inner):
                np.testing.assert_array_equal(mtf.random_uniform(mtf.Mesh(), "a:4").numpy(), first)
            assert not np.array_equal(mtf.random_uniform(mtf.Mesh(), "a:4").numpy(), first)

    def test_without_one_nothing_is_drawn(self):
        for function in (mtf.random_uniform, mtf.random_normal):
            with pytest.raises(ShapeError, match="random_stream"):
                function(mtf.Mesh(), "a:4")


def test_uniform_numbers():
    values = drawn(mtf.random_uniform, minval=-1, maxval=3)
    assert -1 <= values.min() < -0.99 and 2.99 < values.max() < 3
    # A uniform number of width 4 has mean 1 and deviation 4 / sqrt(12).
    np.testing.assert_allclose([values.mean(), values.std()], [1, 1.1547], atol=0.03)


def test_normal_numbers():
    values = drawn(mtf.random_normal, mean=2.0, stddev=3.0)
    np.testing.assert_allclose([values.mean(), values.std()], [2, 3], atol=0.06)
    kurtosis = np.mean(((values - 2) / 3) ** 4)
    np.testing.assert_allclose(kurtosis, 3, atol=0.15)


class TestDropout:
    ONES = mtf.ones(mtf.Mesh(), LARGE)

    @pytest.mark.parametrize("options", [{"rate": 0.25}, {"keep_prob": 0.75}])
    def test_the_part_that_stays_is_scaled_up(self, options):
        with mtf.random_stream(mtf.RandomStream(SEED)):
            values = mtf.dropout(self.ONES, True, **options).numpy()
        kept = values != 0
        np.testing.assert_allclose(values[kept], 4 / 3, rtol=1e-6)
        # 16384 draws: four standard deviations are 0.0135.
        np.testing.assert_allclose(kept.mean(), 0.75, atol=0.0135)
        np.testing.assert_allclose(kept.mean(0), 0.75, atol=0.25)
        np.testing.assert_allclose(kept.mean(1), 0.75, atol=0.13)

    def test_a_noise_shape_shares_the_choice(self):
        with mtf.random_stream(mtf.RandomStream(SEED)):
            values = mtf.dropout(self.ONES, True, rate=0.5, noise_shape="b:256").numpy()
        np.testing.assert_array_equal(values, np.broadcast_to(values[0], values.shape))
        assert 0.35 < (values[0] != 0).mean() < 0.65

    def test_the_gradient_passes_where_the_value_does(self):
        with mtf.random_stream(mtf.RandomStream(SEED)), tf.GradientTape() as tape:
            tape.watch(self.ONES.value)
            y = mtf.dropout(self.ONES, True, rate=0.5)
            loss = mtf.reduce_sum(y)
        (slope,) = mtf.gradients(tape, loss, [self.ONES])
        np.testing.assert_array_equal(slope.numpy(), y.numpy())

    def test_integers_are_masked_and_not_scaled(self):
        ids = mtf.cast(self.ONES, tf.int32) * 5
        with mtf.random_stream(mtf.RandomStream(SEED)):
            values = mtf.dropout(ids, True, rate=0.5).numpy()
        assert set(np.unique(values)) == {0, 5}

    def test_nothing_is_dropped_or_drawn_outside_of_training(self):
        assert mtf.dropout(self.ONES, False, rate=0.5) is self.ONES
        assert mtf.dropout(self.ONES, True, rate=0.0) is self.ONES

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            ({}, "either keep_prob or rate"),
            ({"rate": 0.1, "keep_prob": 0.9}, "either keep_prob or rate"),
            ({"rate": 1.0}, "keep a part of 0.0"),
            ({"keep_prob": 1.5}, "keep a part of 1.5"),
            ({"rate": 0.1, "noise_shape": "a:64,d:3"}, "d=3"),
        ],
    )
    def test_what_makes_no_sense_is_refused(self, options, message):
        with pytest.raises(ShapeError, match=message):
            mtf.dropout(self.ONES, True, **options)
