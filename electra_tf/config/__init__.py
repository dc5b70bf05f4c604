"""Hyperparameters as frozen dataclasses: defaults, validation and derived shapes.

`pretraining_fields` has the hyperparameters of pre-training, with those of devices
(`distribution`), trackers and updates that are not finite, which fine-tuning has, too;
`pretraining` makes a configuration of them, and `checks` refuses impossible ones. `choices`
names what implements an objective, a masking strategy, a generator or a mode of sharing.
`saved_config` is `config.json`, the record of a run, which `recorded_settings` and `resumption`
compare with the settings of a later start.

Does not import TensorFlow, so flags are checked instantly. Imports `electra_tf.text` and
`electra_tf.util`.
"""
