"""Diagnoses of runs: each one on the values that provoke it, and none on a healthy log."""

import json
import pathlib

import pytest

from electra_tf.training.monitoring import health
from electra_tf.training.monitoring.diagnoses import RunFacts, entropy, large_updates
from electra_tf.training.monitoring.health import HealthWatch, diagnose, facts_of
from electra_tf.util.files import read_lines

# Logged by `make demo`: every record of the pre-training.
HEALTHY_LOG = pathlib.Path(__file__).with_name("quickstart_log.jsonl")
HEALTHY = [json.loads(line) for line in read_lines(HEALTHY_LOG)]
FACTS = RunFacts(
    num_train_steps=2000,
    num_warmup_steps=200,
    mask_prob=0.2,
    unigram_accuracy=0.07,
    unknown_share=0.001,
)


def log(since: int = 600, **changes: float) -> list[dict]:
    """Returns the healthy log, with other values from a step on."""
    return [{**r, **(changes if r["step"] >= since else {})} for r in HEALTHY]


def test_a_healthy_log_has_no_diagnosis_at_any_step():
    assert len(HEALTHY) > 20
    for end in range(len(HEALTHY) + 1):
        assert diagnose(HEALTHY[:end], FACTS) == []
    finetuning = facts_of({"task_names": ["t"], "warmup_proportion": 0.1}, num_train_steps=2000)
    assert diagnose(HEALTHY, finetuning) == []


@pytest.mark.parametrize(
    ("changes", "name", "flag"),
    [
        (
            {"masked_lm_accuracy": 0.072},
            "generator at the most frequent token",
            "learning_rate",
        ),
        (
            {"disc_recall": 0.0, "disc_loss": entropy(0.17), "replaced_share": 0.17},
            "discriminator always says original",
            "temperature",
        ),
        ({"replaced_share": 0.004}, "hardly any token is replaced", "disallow_correct"),
        ({"gradient_norm": 60.0}, "gradient norm explodes", "num_warmup_steps"),
    ],
    ids=["generator", "original", "replaced", "gradient"],
)
def test_each_diagnosis_says_since_when_and_what_to_try(changes, name, flag):
    # The exploding gradient needs records before it, to compare with.
    since = 1200 if "gradient_norm" in changes else 600
    (found,) = diagnose(log(since, **changes), FACTS)
    assert found.name == name
    assert found.since == since
    assert found.line().startswith(f"since step {since:,}: ")
    assert "\n" not in found.line()
    assert flag in found.flags[0] + found.flags[1]
    # Two records are no diagnosis yet.
    assert diagnose(log(1900, **changes), FACTS) == []


def test_an_adversarial_generator_is_to_start_trained_and_be_slow():
    facts = facts_of(
        {"objective": "adversarial", "num_train_steps": 2000}, unigram_accuracy=0.07
    )
    (found,) = diagnose(log(masked_lm_accuracy=0.06), facts)
    assert found.flags == ("--init_checkpoint", "--generator_learning_rate")
    facts = facts_of({"objective": "electra", "num_train_steps": 2000}, unigram_accuracy=0.07)
    (found,) = diagnose(log(masked_lm_accuracy=0.06), facts)
    assert found.flags == ("--learning_rate", "--num_warmup_steps")


def test_an_auc_at_chance_is_judged_late_in_the_run():
    records = log(300, disc_auc=0.51)
    assert [d.name for d in diagnose(records, FACTS)] == ["discriminator at chance"]
    assert diagnose(records, FACTS)[0].since == 1000
    assert diagnose([r for r in records if r["step"] < 1000], FACTS) == []


def test_a_discriminator_that_has_learned_little_is_reported_in_the_last_quarter():
    records = log(300, disc_auc=0.6)
    (found,) = diagnose(records, FACTS)
    assert found.name == "discriminator has learned little"
    assert found.since == 1500
    assert "AUC 0.600; 0.5 is chance" in found.line()
    assert found.flags == ("--temperature", "--generator_hidden_size")
    assert diagnose([r for r in records if r["step"] < 1500], FACTS) == []
    assert diagnose(log(300, disc_auc=0.63), FACTS) == []


def test_electrics_noise_may_be_as_likely_as_the_text():
    records = log(300, disc_auc=0.53, disc_recall=0.0, disc_loss=0.5, replaced_share=0.15)
    facts = {"num_train_steps": 2000, "num_warmup_steps": 200}
    assert diagnose(records, facts_of({"objective": "electra", **facts}))
    assert diagnose(records, facts_of({"objective": "electric", **facts})) == []


def test_a_generator_that_is_the_discriminator_cannot_be_made_smaller():
    facts = facts_of({"embedding_sharing": "all", "num_train_steps": 2000})
    (found,) = diagnose(log(300, disc_auc=0.6), facts)
    assert found.flags == ("--temperature", "--embedding_sharing")


def test_detection_by_token_frequency_takes_two_evaluations():
    records = log(1000, disc_auc=0.8, disc_auc_within_token=0.505)
    (found,) = diagnose(records, FACTS)
    assert found.name == "detection by token frequency"
    assert found.since == 1000
    assert "AUC 0.800, but 0.505 among occurrences of the same token" in found.line()
    assert found.flags == ("--temperature", "--generator_hidden_size")
    assert diagnose([r for r in records if r["step"] < 1500], FACTS) == []
    assert diagnose(log(1000, disc_auc=0.8, disc_auc_within_token=0.56), FACTS) == []
    # With a low AUC, there is nothing that it goes by.
    low = diagnose(log(1000, disc_auc=0.6, disc_auc_within_token=0.505), FACTS)
    assert [each.name for each in low] == ["discriminator has learned little"]


def test_updates_are_compared_with_the_weights():
    layers = {"update_ratio/electra/layer_0": 2e-3, "update_ratio/generator/layer_1": 1e-3}
    assert diagnose(log(0, **layers), FACTS) == []
    large = {**layers, "update_ratio/generator/layer_1": 0.3}
    (found,) = diagnose(log(1200, **large), FACTS)
    assert found.name == "updates too large"
    assert found.since == 1200
    assert "the weights of generator/layer_1 by 30% of their norm" in found.line()
    # It stays wrong, although the decay of the learning rate ends it.
    (found,) = diagnose([*log(1200, **large)[:-4], *log(0, **layers)[-4:]], FACTS)
    assert "since step 1,200: an update changes" in found.line()
    assert "by 30% of their norm, until step 1,700 (" in found.line()
    small = dict.fromkeys(layers, 1e-8)
    (found,) = diagnose(log(0, **small), FACTS)
    assert found.name == "updates too small"
    # The decay of the learning rate at the end is usual.
    first = log(0, **layers)[:4]
    assert diagnose([*first, *log(0, **small)[4:]], FACTS) == []


def test_large_updates_are_found_without_copying_a_long_log():
    class Records(list):
        copied = 0

        def __getitem__(self, key):
            found = super().__getitem__(key)
            self.copied += len(found) if isinstance(key, slice) else 0
            return found

    records = Records(log(0, **{"update_ratio/electra/layer_0": 2e-3}))
    assert large_updates(records, FACTS) is None
    assert records.copied <= len(records)


def test_an_exploding_gradient_names_the_layers():
    layers = {"gradient_norm/electra/layer_0": 59.0, "gradient_norm/generator/layer_0": 5.0}
    (found,) = diagnose(log(1200, gradient_norm=60.0, **layers), FACTS)
    assert "explodes (60, most of it in electra/layer_0; the median before" in found.line()


def test_a_discriminator_that_finds_nothing_is_one_diagnosis():
    loss = entropy(0.17)
    records = log(disc_recall=0.0, disc_loss=loss, replaced_share=0.17, disc_auc=0.5)
    assert [d.name for d in diagnose(records, FACTS)] == ["discriminator always says original"]
    # Recall 0 with a loss below the entropy: it has learned to rank tokens.
    assert diagnose(log(disc_recall=0.0, disc_loss=0.9 * loss), FACTS) == []


def test_unknown_words_are_wrong_from_the_start():
    facts = facts_of({"num_train_steps": 10, "mask_prob": 0.15}, unknown_share=0.3)
    (found,) = diagnose([], facts)
    assert "since step 0: 30.0% of the words" in found.line()
    assert found.flags == ("--vocab_file", "--do_lower_case")


def test_a_generator_that_cannot_learn_is_not_judged():
    facts = facts_of(
        {"generator_type": "unigram", "num_train_steps": 2000}, unigram_accuracy=0.9
    )
    assert diagnose(HEALTHY, facts) == []


def test_a_loss_without_weight_is_the_first_thing_to_try():
    facts = facts_of(
        {"num_train_steps": 2000, "gen_weight": 0.0, "disc_weight": 0.0},
        unigram_accuracy=0.07,
    )
    (generator, detection) = diagnose(log(300, masked_lm_accuracy=0.05, disc_auc=0.5), facts)
    assert generator.flags == ("--gen_weight", "--learning_rate")
    assert detection.flags == ("--disc_weight", "--learning_rate")


@pytest.mark.parametrize(
    ("settings", "rate"),
    [
        ({"mask_prob_end": None, "max_predictions_per_seq": 4}, 0.125),
        ({"mask_prob_end": 0.02, "max_predictions_per_seq": 12}, 0.02),
        ({"mask_prob_end": 0.4}, 0.3),
    ],
    ids=["limit", "schedule", "rising"],
)
def test_a_low_masking_rate_is_no_lack_of_replaced_tokens(settings, rate):
    facts = facts_of(
        {"num_train_steps": 2000, "mask_prob": 0.3, "max_seq_length": 32, **settings}
    )
    assert facts.mask_prob == rate
    assert diagnose(log(replaced_share=0.11 * rate), facts) == []
    assert len(diagnose(log(replaced_share=0.09 * rate), facts)) == 1


def test_values_that_are_not_logged_or_not_finite_are_no_diagnosis():
    assert diagnose(log(disc_auc=None, disc_recall=None, replaced_share=None), FACTS) == []
    bare = [{"step": 100 * n, "kind": "train", "loss": 1.0} for n in range(1, 20)]
    assert diagnose(bare, FACTS) == []


def test_a_watch_reports_a_diagnosis_once_and_sums_up_at_the_end():
    watch = HealthWatch(FACTS)
    lines = [line for record in log(masked_lm_accuracy=0.05) for line in watch.add(record)]
    assert len(lines) == 1
    assert lines[0].startswith("Health: since step 600: the generator predicts no better")
    assert len(watch.summary()) == 1
    assert HealthWatch(FACTS, HEALTHY).summary() == []
    # A resumed run knows the records before it.
    resumed = HealthWatch(FACTS, log(masked_lm_accuracy=0.05)[:-1])
    assert len(resumed.add({"step": 2000, "kind": "train", "masked_lm_accuracy": 0.05})) == 1


def test_a_watch_of_a_long_run_keeps_few_records(monkeypatch):
    monkeypatch.setattr(health, "_MAX_RECORDS", 50)
    facts = RunFacts(num_train_steps=200_000, num_warmup_steps=200, unigram_accuracy=0.07)
    (healthy,) = [r for r in HEALTHY if r["kind"] == "train" and r["step"] == 1000]
    watch = HealthWatch(facts)
    said = {}
    for step in range(100, 200_001, 100):
        accuracy = 0.05 if step >= 100_000 else 0.2
        lines = watch.add({**healthy, "step": step, "masked_lm_accuracy": accuracy})
        said.update({step: lines} if lines else {})
    ((step, (line,)),) = said.items()
    assert step == 100_200  # the third record that says so
    assert "since step 100,000: " in line
    assert "since step 100,000: " in watch.summary()[0]
    assert sum(map(len, watch._by_kind.values())) <= 50


def test_the_entropy_of_a_sure_outcome_is_zero():
    assert [entropy(share) for share in (0.0, 1.0)] == [0.0, 0.0]
    assert entropy(0.5) == pytest.approx(0.693147, rel=1e-5)
