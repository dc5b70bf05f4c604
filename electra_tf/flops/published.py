"""Training and inference FLOPs of the models in the paper's tables, as the paper counts them.

Shapes, batch sizes and steps are from the authors' FLOPs script, from Table 6 of the paper
for its own BERT models, and from Liu et al. 2019 for RoBERTa. No TensorFlow is imported here.
"""

import dataclasses

from electra_tf.flops.counting import Transformer

# Sequence length of inference in the paper's tables.
INFERENCE_LENGTH = 128
COUNTED = "counted here"
COUNTED_BY_TENSORFLOW = "TensorFlow's count"
PRINTED = "as printed"

# ELMo (Peters et al. 2018), as trained by bilm-tf: character convolutions of (width, filters),
# two highway layers, and two LSTM layers in each direction.
_ELMO_CONVOLUTIONS = ((1, 32), (2, 32), (3, 64), (4, 128), (5, 256), (6, 512), (7, 1024))
_ELMO_CHARACTERS, _ELMO_CHARACTER_SIZE = 50, 16
_ELMO_UNITS, _ELMO_PROJECTION, _ELMO_LAYERS = 4096, 512, 2
# TensorFlow's FLOPs of a forward pass in the authors' script, and its batch and length.
_ELMO_BATCH_FLOPS, _ELMO_BATCH_SIZE, _ELMO_LENGTH = 568_093_262_680, 20, 128
_ELMO_WORDS, _ELMO_EPOCHS = 768_648_884, 10
_XLNET_BATCH_FLOPS, _XLNET_BATCH_SIZE = 15_064_773_691_518, 32

_BERT_SMALL = Transformer(
    hidden_size=256, num_hidden_layers=12, embedding_size=128, seq_length=128
)
_BERT_BASE = Transformer(hidden_size=768, num_hidden_layers=12)
_BERT_LARGE = Transformer(hidden_size=1024, num_hidden_layers=24)
_GPT = Transformer(hidden_size=768, num_hidden_layers=12, vocab_size=40_000, output_share=1.0)
_ROBERTA = Transformer(hidden_size=1024, num_hidden_layers=24, vocab_size=50_265)
_XLNET_BASE = Transformer(hidden_size=768, num_hidden_layers=12, vocab_size=32_000)
_XLNET_LARGE = Transformer(hidden_size=1024, num_hidden_layers=24, vocab_size=32_000)
_ALBERT = Transformer(
    hidden_size=4096, num_hidden_layers=12, vocab_size=30_000, embedding_size=128
)
_T5_ENCODER = Transformer(
    hidden_size=1024,
    num_hidden_layers=24,
    vocab_size=32_000,
    intermediate_size=65_536,
    num_attention_heads=128,
    head_size=128,
    output_share=0.0,
)
_T5_DECODER = dataclasses.replace(_T5_ENCODER, output_share=1.0, decoder=True)


@dataclasses.dataclass(frozen=True)
class PublishedModel:
    """A row of the paper's tables.

    Attributes:
        name: as in the paper.
        train_flops: FLOPs of pre-training.
        inference_flops: FLOPs of one sequence of `INFERENCE_LENGTH` tokens; for XLNet
            without relative positions, for T5 including the softmax of a full output.
        printed: the paper's speed-ups of training and inference, or its training compute
            relative to ELECTRA-400K; None if the paper has none.
        source: source of `train_flops`: `COUNTED`, `COUNTED_BY_TENSORFLOW` (of one batch, by
            the authors) or `PRINTED` (the paper's Table 4).
    """

    name: str
    train_flops: float
    inference_flops: float
    printed: str | None
    source: str = COUNTED


def small_models() -> list[PublishedModel]:
    """Returns the rows of the paper's Table 1.

    Its speed-ups for ELECTRA-Small correspond to 1.4e18 FLOPs, the count of BERT-Small; the
    authors' script counts 1.29e18.
    """
    gpt, base = inference_flops(_GPT), inference_flops(_BERT_BASE)
    small = inference_flops(_BERT_SMALL)
    bert_small = _BERT_SMALL.masked_lm_training(128, 1_450_000)
    bert_base = _BERT_BASE.masked_lm_training(256, 1_000_000)
    electra_small = electra_train_flops(_BERT_SMALL, 64, 128, 1_000_000)
    electra_base = electra_train_flops(_BERT_BASE, 256, 256, 766_000)
    elmo = elmo_inference_flops()
    shares = ((50, "90x / 8x"), (25, "181x / 8x"), (12.5, "361x / 8x"), (6.25, "722x / 8x"))
    return [
        PublishedModel("ELMo", _elmo_train_flops(), elmo, "19x / 1.2x", COUNTED_BY_TENSORFLOW),
        PublishedModel("GPT", _GPT.masked_lm_training(128, 960_800), gpt, "1.6x / 0.97x"),
        PublishedModel("BERT-Small", bert_small, small, "45x / 8x"),
        PublishedModel("BERT-Base", bert_base, base, "1x / 1x"),
        PublishedModel("ELECTRA-Small", electra_small, small, "45x / 8x"),
        *(
            PublishedModel(
                f"ELECTRA-Small, {share} % trained", share / 100 * electra_small, small, printed
            )
            for share, printed in shares
        ),
        PublishedModel("ELECTRA-Base", electra_base, base, "1x / 1x"),
    ]


def large_models() -> list[PublishedModel]:
    """Returns the rows of the paper's Tables 2 to 4 that are not in Table 1, and T5."""
    large, roberta = inference_flops(_BERT_LARGE), inference_flops(_ROBERTA)
    xlnet_base, xlnet_large = inference_flops(_XLNET_BASE), inference_flops(_XLNET_LARGE)
    xlnet = 2 * 500_000 * 8192 * _XLNET_BATCH_FLOPS / _XLNET_BATCH_SIZE
    bert = _BERT_LARGE.masked_lm_training(256, 1_000_000)
    papers_bert = _BERT_LARGE.masked_lm_training(2048, 464_000)
    roberta_100k = _ROBERTA.masked_lm_training(8000, 100_000)
    electra_400k = electra_train_flops(_BERT_LARGE, 256, 2048, 400_000)
    electra_1_75m = electra_train_flops(_BERT_LARGE, 256, 2048, 1_750_000)
    albert = _ALBERT.masked_lm_training(4096, 1_500_000)
    t5 = sum(model.masked_lm_training(2048, 1_000_000) for model in (_T5_ENCODER, _T5_DECODER))
    return [
        PublishedModel("BERT-Large", bert, large, "0.27x"),
        PublishedModel("SpanBERT", 7.1e20, large, "1x", PRINTED),
        PublishedModel("RoBERTa-100K", roberta_100k, roberta, "0.90x"),
        PublishedModel("RoBERTa-500K", 5 * roberta_100k, roberta, "4.5x"),
        PublishedModel("XLNet-Base", 6.6e19, xlnet_base, "0.09x", PRINTED),
        PublishedModel("XLNet-Large", xlnet, xlnet_large, "5.4x", COUNTED_BY_TENSORFLOW),
        PublishedModel("BERT-Large (the paper's)", papers_bert, large, "1x"),
        PublishedModel("ELECTRA-400K", electra_400k, large, "1x"),
        PublishedModel("ELECTRA-1.75M", electra_1_75m, large, "4.4x"),
        PublishedModel("ALBERT", albert, inference_flops(_ALBERT), "44x"),
        PublishedModel("T5-11B", t5, _t5_inference_flops(), None),
    ]


def electra_train_flops(
    discriminator: Transformer, generator_hidden_size: int, batch_size: int, num_steps: float
) -> float:
    """Returns the training FLOPs of an ELECTRA with generator and shared embeddings."""
    generator = Transformer(
        hidden_size=generator_hidden_size,
        num_hidden_layers=discriminator.num_hidden_layers,
        seq_length=discriminator.seq_length,
        vocab_size=discriminator.vocab_size,
        embedding_size=discriminator.embedding_size,
        output_share=discriminator.output_share,
    )
    return discriminator.discriminator_training(
        batch_size, num_steps
    ) + generator.masked_lm_training(batch_size, num_steps)


def inference_flops(model: Transformer) -> int:
    """Returns the inference FLOPs of `model` on `INFERENCE_LENGTH` tokens."""
    return dataclasses.replace(model, seq_length=INFERENCE_LENGTH).inference()


def elmo_inference_flops() -> int:
    """Returns the FLOPs of ELMo's matrix products on `INFERENCE_LENGTH` tokens.

    The four gates of an LSTM take the input and the projected state, each of width 512; its
    4096 units are then projected. The paper prints 2.6e10.
    """
    convolutions = sum(
        2 * (_ELMO_CHARACTERS - width + 1) * width * _ELMO_CHARACTER_SIZE * filters
        for width, filters in _ELMO_CONVOLUTIONS
    )
    filters = sum(filters for _, filters in _ELMO_CONVOLUTIONS)
    highway = 2 * 2 * (2 * filters * filters)  # a transform and a gate in each of two layers
    characters = convolutions + highway + 2 * filters * _ELMO_PROJECTION
    lstm = 2 * (4 * _ELMO_UNITS) * (2 * _ELMO_PROJECTION)
    lstm += 2 * _ELMO_UNITS * _ELMO_PROJECTION
    directions = 2
    return INFERENCE_LENGTH * (characters + directions * _ELMO_LAYERS * lstm)


def _elmo_train_flops() -> float:
    """Returns the FLOPs of ten epochs of the One Billion Word benchmark."""
    batches = _ELMO_EPOCHS * _ELMO_WORDS / (_ELMO_BATCH_SIZE * _ELMO_LENGTH)
    return 2 * batches * _ELMO_BATCH_FLOPS


def _t5_inference_flops() -> float:
    encoder, decoder = (
        dataclasses.replace(model, seq_length=INFERENCE_LENGTH)
        for model in (_T5_ENCODER, _T5_DECODER)
    )
    return encoder.encoder() + decoder.encoder() + decoder.vocabulary_head()
