"""The errors of rwkv_weights. Each message is one sentence for the operator.

RwkvctlError
├── CheckpointError                     this file does not load
│   ├── UnreadableCheckpointError       missing, truncated, corrupt, hostile, or more than tensors
│   ├── UnsupportedArchitectureError    a model, but not an RWKV-7 (x070) one
│   ├── CheckpointKeysError             keys are missing or unknown
│   ├── CheckpointShapeError            a tensor of another shape or type than the rest implies
│   ├── CheckpointValuesError           a tensor holds NaN or infinities
│   └── AdapterError                    an adapter that cannot be used, or not with this base
└── WeightsError                        a verb cannot do what it was asked
    ├── UnknownCheckpointError          no checkpoint of that name
    ├── WeightsUsageError               the command line is wrong
    └── HubError                        the hub refuses or does not answer; `passing`: a later try may succeed
"""

from rwkvctl.protocol.errors import Exit, RwkvctlError


class CheckpointError(RwkvctlError):
    """A file does not load as a checkpoint; the message is one sentence for the operator."""


class UnreadableCheckpointError(CheckpointError):
    """The file is missing, truncated, corrupt, or holds more than tensors."""


class UnsupportedArchitectureError(CheckpointError):
    """The file is a model, but not an RWKV-7 (x070) one."""


class CheckpointKeysError(CheckpointError):
    """Keys of the checkpoint are missing or unknown."""


class CheckpointShapeError(CheckpointError):
    """A tensor has another shape or type than the rest of the file implies."""


class CheckpointValuesError(CheckpointError):
    """A tensor holds NaN or infinities."""


class AdapterError(CheckpointError):
    """An adapter cannot be used, or not with the base that was named."""


class WeightsError(RwkvctlError):
    """A verb cannot do what it was asked."""


class UnknownCheckpointError(WeightsError):
    """There is no checkpoint of the given name."""

    exit_code = Exit.NOT_FOUND


class WeightsUsageError(WeightsError):
    """The command line is wrong."""

    exit_code = Exit.USAGE


class HubError(WeightsError):
    """The hub refused or did not answer."""

    def __init__(self, sentence: str, *, passing: bool = False, wait_s: float = 0.0, exit_code: Exit = Exit.FAILED):
        super().__init__(sentence)
        self.passing, self.wait_s, self.exit_code = passing, wait_s, exit_code
