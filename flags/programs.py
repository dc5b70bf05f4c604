r"""The bodies of the command-line programs.

Each function is a command: it defines its flags, parses the command line, runs its body and
exits. Its docstring is the `--help` of the command. TensorFlow takes seconds to load, so
modules that need it are imported in the bodies; `--help` and flag errors do not wait for it.
"""

import os
from collections.abc import Sequence
from functools import partial

from electra_tf.config.distribution import MULTI_WORKER
from electra_tf.flops.report import format_report, to_json
from electra_tf.report.page import write_report
from electra_tf.util.console import discard
from electra_tf.util.extras import import_extra
from electra_tf.util.files import write_atomically
from electra_tf.util.tensorflow_import import import_tensorflow
from finetune.results.comparison import merge_tables
from flags import (
    comparison,
    conversion,
    corpus,
    export,
    finetuning,
    flops,
    inspection,
    pretraining,
    replaced_tokens,
    scoring,
    vocabulary,
    web_demo,
)
from flags import report as run_reports
from flags.command_line.program import preemptible, program
from flags.command_line.program_names import next_command, print_line
from flags.remote import finetuning_folders
from pretrain_data.build.dataset import build_pretraining_data


@program(vocabulary.define_flags, corpus.ALIASES, remote=vocabulary.REMOTE)
def build_vocabulary() -> None:
    r"""Trains a WordPiece vocabulary on text.

        python build_vocabulary.py --corpus-dir demo/factbook/corpus --vocab-size 4096 \
            --output-file demo/output/vocab.txt

    For Korean, Japanese, Thai and Indic languages, keep accents; stripping them breaks letters
    apart:

        python build_vocabulary.py --corpus-dir corpus --vocab-size 8192 \
            --output-file data/vocab.txt --no-strip-accents

    With a report on held-out text, compared with another vocabulary:

        python build_vocabulary.py --input 'text/*.jsonl.gz' --vocab-size 30000 \
            --output-file data/vocab.txt --report 'held_out/*.jsonl.gz' \
            --compare_with recipes/vocab/bert_uncased_vocab.txt

    The vocabulary has exactly --vocab-size entries; the first are [PAD], [UNK], [CLS], [SEP]
    and [MASK]. The settings for case and accents are written beside it, as
    vocab.tokenizer.json, where the other programs read them.
    """
    config = vocabulary.config_from_flags()
    import_tensorflow()
    from pretrain_data.vocabulary import vocabulary_builder

    vocabulary_builder.build_vocabulary(config, print_line)


@program(corpus.define_corpus_flags, corpus.ALIASES, remote=corpus.REMOTE)
def build_pretraining_dataset() -> None:
    r"""Builds pre-training data (TFRecords) from text.

        python build_pretraining_dataset.py --corpus-dir demo/factbook/corpus \
            --vocab-file demo/output/vocab.txt --max-seq-length 32 \
            --output-dir demo/output/pretrain_tfrecords

    With 16 processes, keeping case and accents:

        python build_pretraining_dataset.py --corpus-dir corpus --vocab-file vocab.txt \
            --output-dir data/pretrain_tfrecords --max-seq-length 512 --num-processes 16 \
            --no-lower-case --no-strip-accents

    From JSONL and Parquet files, whose records are documents:

        python build_pretraining_dataset.py --input 'a.jsonl.gz,parts/*.parquet' \
            --text_field content --text_column content --vocab-file vocab.txt \
            --output-dir data/pretrain_tfrecords

    Each line is a sentence or paragraph; a blank line ends a document. The output is TFRecords
    in the authors' format and a manifest, pretrain_data.json.
    """
    build_pretraining_data(corpus.corpus_build_config(), print_line)


@program(corpus.define_openwebtext_flags, corpus.ALIASES, remote=corpus.REMOTE)
def build_openwebtext_pretraining_dataset() -> None:
    r"""Builds pre-training data (TFRecords) from the archives of OpenWebText.

        python build_openwebtext_pretraining_dataset.py --data-dir data \
            --max-seq-length 128 --num-processes 5

    The data folder must contain openwebtext/ with the downloaded .xz archives, and the
    vocabulary, vocab.txt. The archives are not extracted to disk. The TFRecords and their
    manifest, pretrain_data.json, are written to pretrain_tfrecords/ in the data folder.
    """
    build_pretraining_data(corpus.openwebtext_build_config(), print_line)


@program(inspection.define_flags, remote=inspection.REMOTE, prints_result=True)
def inspect_dataset() -> None:
    r"""Describes built records (lengths, segments, tokens, duplicates), or verifies them.

        python inspect_dataset.py --data-dir demo/output --model-name quickstart \
            --flagfile recipes/quickstart.flags --examples 3 --html demo/output/records.html

    Any record files, with their vocabulary; a sample of a million records, as JSON:

        python inspect_dataset.py --max_records 1000000 --json - \
            --pretrain_tfrecords 'demo/output/pretrain_tfrecords/*.tfrecord*' \
            --vocab_file demo/output/vocab.txt

    --verify reads every record and compares counts, sizes and hashes with the manifest,
    pretrain_data.json; an error names the first damaged file and its byte offset.

    Also takes the flags of run_pretraining.py, so that its recipes can be passed: those of
    training, evaluation and trackers have no effect.
    """
    config = inspection.config_from_flags()
    import_tensorflow()
    from flags import inspection_run

    inspection_run.run(config)


@program(pretraining.define_flags, remote=pretraining.REMOTE)
@preemptible()
def run_pretraining() -> None:
    r"""Pre-trains an ELECTRA model, or evaluates one on held-out text.

        python run_pretraining.py --data-dir demo/output --model-name quickstart \
            --flagfile recipes/quickstart.flags

    Hyperparameters can also be given as in the authors' code, inline or as a .json file:

        python run_pretraining.py --data-dir data --model-name electra_small \
            --hparams '{"model_size": "small", "num_train_steps": 1000000}'

    Running the same command again resumes from the latest checkpoint. On all GPUs of this
    host, or on two hosts (--task_index=1 on the second); see recipes/launch:

        python run_pretraining.py --data-dir data --model-name electra_small \
            --strategy=mirrored
        python run_pretraining.py --data-dir data --model-name electra_small \
            --strategy=multi_worker --workers=host1:2222,host2:2222 --task_index=0

    Evaluate the same run:

        python run_pretraining.py --data-dir data --model-name electra_small \
            --do_train=false --do_eval --eval_tfrecords 'data/eval_tfrecords/*.tfrecord*'
    """
    config = pretraining.config_from_flags()
    import_tensorflow()
    from electra_tf.model_builder import model_class
    from electra_tf.pretraining.run import evaluate, train
    from electra_tf.training.checkpoints.authors_files import has_only_authors_checkpoint
    from electra_tf.training.distribution import strategies
    from flags.records import (
        count_trained_tokens,
        evaluated_records,
        held_out_records,
        training_records,
        warn_of_shared_files,
        warn_of_shared_shards,
    )
    from flags.remote.pretraining_folders import staged

    chief = strategies.is_chief(config)
    print_skipped = print if chief else discard
    with staged(config, print_line) as config:
        if config.do_train:
            records = training_records(config, print_skipped)
            held_out = held_out_records(config, print_skipped)
            if chief and held_out is not None:
                warn_of_shared_files(records, held_out)
            train(config, records, held_out)
            if chief and config.report:
                run_reports.report_pretraining(config, print_line)
        else:
            records = evaluated_records(config, print_skipped)
            if chief:
                warn_of_shared_shards(config, records)
            evaluate(config, records, token_counts=partial(count_trained_tokens, config))
    worker_settings = []
    if config.strategy == MULTI_WORKER:
        names = ("strategy", "workers", "task_index")
        worker_settings = [name for name in names if getattr(config, name) is not None]
    if config.do_train and chief:
        more = ("--do_train=false", "--do_eval")
        print(next_command("run_pretraining.py", *more, worker_settings=worker_settings))
    elif (
        chief
        and model_class(config).has_discriminator
        and not has_only_authors_checkpoint(config.model_dir)  # the next program refuses it
        and os.path.exists(replaced_tokens.SENTENCES)
    ):
        print(next_command("show_replaced_tokens.py", worker_settings=worker_settings))


@program(finetuning.define_flags, remote=finetuning.REMOTE)
@preemptible()
def run_finetuning() -> None:
    r"""Fine-tunes a pre-trained ELECTRA on tasks, evaluates it, and predicts.

        python run_finetuning.py --data-dir demo/output --model-name quickstart \
            --task_spec recipes/tasks/router.json --task_names router

    Hyperparameters can also be given as in the authors' code, inline or as a .json file:

        python run_finetuning.py --data-dir data --model-name electra_small \
            --hparams '{"model_size": "small", "task_names": ["cola"], "num_trials": 5}'

    Running the same command again resumes, reusing finished trials.
    """
    with finetuning_folders.staged(print_line):
        config = finetuning.config_from_flags()
        grid = finetuning.search_grid()
        import_tensorflow()
        from electra_tf.training.distribution import strategies
        from finetune import run, search

        if grid is not None:
            search.search(finetuning.explicit_settings(), grid)
            return
        results = run.run(config)
        if config.do_eval and config.report and strategies.is_chief(config):
            run_reports.report_finetuning(config, print_line)
        run.require_finished(results)


@program(comparison.define_flags, remote=comparison.REMOTE, prints_result=True)
def compare_results() -> None:
    r"""Compares the results of several fine-tuning runs in one Markdown table.

        python compare_results.py --results models/small/results \
            --results models/base/results

    Two runs of one model, with custom names, also written to a file:

        python compare_results.py \
            --results first/nsmc_results.json,second/nsmc_results.json \
            --names "rate 1e-4,rate 3e-4" --output comparison.md
    """
    config = comparison.config_from_flags()
    table = merge_tables(config.results, config.names)
    print(table, end="")
    if config.output:
        write_atomically(config.output, table)
        print(f"\nWritten to {config.output}")


@program(run_reports.define_flags, remote=run_reports.REMOTE, takes_arguments=True)
def report(arguments: Sequence[str]) -> None:
    r"""Writes what runs have logged as one HTML page, with curves, settings and diagnoses.

        python report.py demo/output/models/quickstart

    Several runs are compared; a fine-tuning run is given by its results file:

        python report.py data/models/first data/models/second --output comparison.html
        python report.py data/models/small/results/cola_results.json

    The page needs no network. Writing it needs the extra `report`: pip install
    'electra-tf[report]'.
    """
    with run_reports.local_runs(arguments) as paths:
        config = run_reports.config_from_flags(paths)
        runs = run_reports.read_runs(config.runs)
    write_report(config.output, runs, run_reports.references_of(runs))
    print(f"Report: {config.output}")


@program(replaced_tokens.define_flags, remote=replaced_tokens.REMOTE, prints_result=True)
def show_replaced_tokens() -> None:
    r"""Corrupts sentences with the generator and shows what the discriminator detects.

        python show_replaced_tokens.py --data-dir demo/output --model-name quickstart \
            --flagfile recipes/quickstart.flags --text_file demo/sentences.txt

    The file has one sentence per line. The latest checkpoint of the run is used.

    Also takes the flags of run_pretraining.py, so that its recipes can be passed: those of
    training, evaluation and trackers have no effect.
    """
    config = replaced_tokens.config_from_flags()
    import_tensorflow()
    from electra_tf.inference.replaced_tokens import show
    from flags.records import training_records

    show(
        config.model,
        config.sentences,
        token_counts=training_records(config.model).token_counts,
        color=config.color,
    )
    print("\nNext: pre-train on your own text, see README.md")


@program(scoring.define_flags, remote=scoring.REMOTE, prints_result=True)
def score_text() -> None:
    r"""Scores texts by pseudo-log-likelihood, and re-ranks n-best lists.

        python score_text.py --data-dir demo/output --model-name quickstart \
            --flagfile recipes/quickstart.flags --text_file demo/sentences.txt \
            --output_file demo/output/scores.tsv

        python score_text.py --data-dir DATA --model-name electric \
            --flagfile recipes/small.flags --flagfile recipes/modes/electric.flags \
            --nbest_file lists.jsonl --tune_nbest_file tune.jsonl \
            --output_file reranked.jsonl

    A text file has one text per line, an n-best file one JSON object per line:
    {"hypotheses": [{"text": "good day", "score": -3.2}], "reference": "good day"}.

    Also takes the flags of run_pretraining.py, so that its recipes can be passed: those of
    training, evaluation and trackers have no effect.
    """
    config = scoring.config_from_flags()
    import_tensorflow()
    from electra_tf.inference.scoring.run import run

    run(config)


@program(conversion.define_flags, remote=conversion.REMOTE)
def convert_checkpoint() -> None:
    r"""Converts checkpoints between this project, the authors' code, Hugging Face and KerasHub.

        python convert_checkpoint.py --from DATA/models/small --to_format huggingface \
            --output hf_small

        python convert_checkpoint.py --from electra_small --to_format electra_tf \
            --output DATA/models/small

    A checkpoint of the authors' code whose vocabulary is cased:

        python convert_checkpoint.py --from electra_cased --to_format electra_tf \
            --output DATA/models/cased --do_lower_case=false

    --from is a folder, or the prefix of a TensorFlow checkpoint; its format is detected.
    Whatever the target format cannot represent is reported.
    """
    config = conversion.config_from_flags()
    import_tensorflow()
    from electra_tf.interop.conversion import convert
    from electra_tf.interop.native_models import PRETRAINING
    from finetune.authors_tasks import describe_task
    from finetune.model_family import FINETUNING

    convert(config, families=(PRETRAINING, FINETUNING), describe_task=describe_task)


@program(export.define_flags, remote=export.REMOTE)
def export_saved_model() -> None:
    r"""Exports a model as a SavedModel that takes raw text, or as LiteRT, ONNX or StableHLO.

        python export_saved_model.py --model_dir demo/output/models/quickstart \
            --export_dir demo/output/exported/discriminator
        python export_saved_model.py --model_dir demo/output/models/quickstart \
            --export_dir demo/output/exported/generator --component generator
        python export_saved_model.py --export_dir demo/output/exported/router \
            --model_dir demo/output/models/quickstart/finetuning_models/router_model_1

    The signature "serving_default" takes texts and tokenizes them as in training; "tokens"
    takes ids. `saved_model_cli show --dir EXPORT_DIR/1 --all` lists inputs and outputs.
    Existing versions are never overwritten.
    """
    config = export.config_from_flags()
    import_tensorflow()
    from electra_tf.inference.export import run
    from electra_tf.inference.export.pretrained import PRETRAINED
    from finetune.export import FINETUNED

    run.export(config, loaders=(PRETRAINED, FINETUNED))


@program(web_demo.define_flags, remote=web_demo.REMOTE, prints_result=True)
def serve_demo() -> None:
    r"""Serves a web page for exported models.

        python serve_demo.py --discriminator demo/output/exported/discriminator \
            --generator demo/output/exported/generator --tasks demo/output/exported/router

    Open http://127.0.0.1:8080/ and type a sentence: every token is shaded by its probability
    of being replaced, and hovering over one shows what the generator would predict. Needs
    the extra `demo`: pip install 'electra-tf[demo]'.
    """
    config = web_demo.config_from_flags()
    import_extra("flask", "demo", "The page")
    import_tensorflow()
    from electra_tf.inference.web_demo.app import serve
    from electra_tf.training.distribution.cores import limit_operation_threads

    limit_operation_threads()
    serve(config)


@program(flops.define_flags, remote=flops.REMOTE, prints_result=True)
def flops_computation() -> None:
    r"""Prints train and inference FLOPs of the paper's models, and of runs of your own.

        python flops_computation.py
        python flops_computation.py --recipe recipes/small.flags,recipes/base.flags

    A recipe with changes, with all numbers also written to a file:

        python flops_computation.py --flagfile recipes/small.flags --train_batch_size 64 \
            --json flops.json

    Fine-tuning, with the encoder of a pre-trained model:

        python flops_computation.py --recipe recipes/text_router.flags \
            --data-dir demo/output --model-name quickstart
    """
    config = flops.config_from_flags()
    print(format_report(config.runs), end="")
    if config.json:
        write_atomically(config.json, to_json(config.runs))
        print(f"\nWritten to {config.json}")
