"""Every gradient of T5 equals a plain T5 written down in float64."""

import numpy as np
import pytest
import tensorflow as tf

HEADS, LAYERS, BUCKETS, MAX_DISTANCE = 4, 2, 32, 128


class PlainT5:
    """T5 as the papers say it (Raffel et al. 2020; Shazeer 2020), on global arrays in float64."""

    def __init__(self, weights):
        self.weights = {n: tf.Variable(np.asarray(w, np.float64)) for n, w in weights.items()}

    def loss_and_gradients(self, inputs, targets, z_loss):
        real, wanted = (inputs != 0).astype(float), (targets != 0).astype(float)
        with tf.GradientTape() as tape:
            apart = -1e9 * (real[:, None, :, None] != real[:, None, None, :])
            encoded = self._stack("encoder", inputs, real, apart)
            read = np.pad(targets, [[0, 0], [1, 0]])[:, :-1] * wanted.astype(int)
            order = np.arange(targets.shape[1])
            future = -1e9 * (order[None, :] > order[:, None])
            apart = -1e9 * (wanted[:, None, :, None] != wanted[:, None, None, :])
            unseen = -1e9 * (wanted[:, None, :, None] != real[:, None, None, :])
            hidden = self._stack("decoder", read, wanted, apart + future, encoded, unseen)
            logits = self._logits(hidden)
            log_z = tf.reduce_logsumexp(logits, axis=-1)
            losses = log_z - tf.gather(logits, targets, batch_dims=2) + z_loss * log_z**2
            loss = tf.reduce_sum(losses * (targets > 0)) / targets.size
        gradients = tape.gradient(loss, self.weights)
        return loss.numpy(), {n: tf.convert_to_tensor(g).numpy() for n, g in gradients.items()}

    def _stack(self, tower, ids, real, mask, encoded=None, unseen=None):
        x = tf.gather(self.weights["shared/embedding"], ids)
        length, padding = ids.shape[1], real[:, :, None]
        table = self.weights[f"{tower}/block_000/layer_000/SelfAttention/relative_attention_bias"]
        mask = mask + tf.gather(table, _buckets(length, tower == "encoder"), axis=1)[None]
        for block in range(LAYERS):
            layers = ["SelfAttention", "EncDecAttention", "DenseReluDense"]
            for i, layer in enumerate(x for x in layers if x[:3] != "Enc" or encoded is not None):
                scope = f"{tower}/block_{block:03d}/layer_{i:03d}"
                h = self._norm(x, f"{scope}/rms_norm") * padding
                if layer == "SelfAttention":
                    x += self._attention(h, h, mask, f"{scope}/{layer}")
                elif layer == "EncDecAttention":
                    x += self._attention(h, encoded, unseen, f"{scope}/{layer}")
                else:
                    x += self._feed_forward(h, f"{scope}/{layer}")
        return self._norm(x, f"{tower}/rms_norm") * padding

    def _norm(self, x, scope):
        mean = tf.reduce_mean(x**2, axis=-1, keepdims=True)
        return x / tf.sqrt(mean + 1e-6) * self.weights[f"{scope}/scale"]

    def _attention(self, x, memory, mask, scope):
        q, k, v = (
            _split(y @ self.weights[f"{scope}/{name}"])
            for y, name in ((x, "q"), (memory, "k"), (memory, "v"))
        )
        weights = tf.nn.softmax(tf.matmul(q, k, transpose_b=True) + mask)
        y = tf.transpose(weights @ v, [0, 2, 1, 3])
        return tf.reshape(y, [*y.shape[:2], -1]) @ self.weights[f"{scope}/o"]

    def _feed_forward(self, x, scope):
        if f"{scope}/wi/kernel" in self.weights:
            h = tf.nn.relu(x @ self.weights[f"{scope}/wi/kernel"])
        else:
            gate = tf.nn.gelu(x @ self.weights[f"{scope}/wi_0/kernel"], approximate=True)
            h = gate * (x @ self.weights[f"{scope}/wi_1/kernel"])
        return h @ self.weights[f"{scope}/wo/kernel"]

    def _logits(self, hidden):
        if "decoder/logits/kernel" in self.weights:
            return hidden @ self.weights["decoder/logits/kernel"]
        table = self.weights["shared/embedding"]
        return hidden * table.shape[1] ** -0.5 @ tf.transpose(table)


def _split(x):
    return tf.transpose(tf.reshape(x, [*x.shape[:2], HEADS, -1]), [0, 2, 1, 3])


def _buckets(length, both_ways):
    back = np.arange(length)[:, None] - np.arange(length)[None, :]
    number = BUCKETS // 2 if both_ways else BUCKETS
    distance = np.abs(back) if both_ways else np.maximum(back, 0)
    exact = number // 2
    ratio = np.log(np.maximum(distance, 1) / exact) / np.log(MAX_DISTANCE / exact)
    far = np.minimum(exact + (ratio * (number - exact)).astype(int), number - 1)
    bucket = np.where(distance < exact, distance, far)
    return bucket + number * (back < 0) if both_ways else bucket


@pytest.mark.parametrize("recorded", ["t5_1_0_tiny", "t5_1_1_tiny"], indirect=True)
def test_every_gradient(recorded, model):
    features = recorded.group("plain/")
    plain = PlainT5({n: v.numpy() for n, v in model.variables.items()})
    loss, right = plain.loss_and_gradients(features["inputs"], features["targets"], z_loss=1e-4)
    found = model.gradients(features)
    assert float(model(features, "train").loss) == pytest.approx(loss, rel=1e-6)
    assert found.keys() == right.keys()
    for name, gradient in right.items():
        difference = np.max(np.abs(found[name].numpy() - gradient))
        assert difference < 1e-5 * np.max(np.abs(gradient)), name
