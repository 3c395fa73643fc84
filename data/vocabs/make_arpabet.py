"""Makes `arpabet.model`: `python -m mtf_models.datasets.vocabs.make_arpabet`."""

import io
from pathlib import Path

import sentencepiece

from mtf_models.datasets.vocabs import arpabet_model


def make_arpabet() -> bytes:
    """Trains a SentencePiece model whose pieces are the symbols of `cmudict.phones`.

    Every symbol occurs once, so the trainer keeps the order of the file.

    Returns:
        The serialized model.
    """
    table = Path(__file__).parents[1] / "cmudict" / "cmudict.phones"
    symbols = [line.split()[0] for line in table.read_text(encoding="ascii").splitlines()]
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(symbols),
        model_writer=model,
        model_type="word",
        vocab_size=len(symbols) + 3,
        pad_id=0,
        eos_id=1,
        unk_id=2,
        bos_id=-1,
        minloglevel=2,
    )
    return model.getvalue()


if __name__ == "__main__":
    Path(arpabet_model()).write_bytes(make_arpabet())
