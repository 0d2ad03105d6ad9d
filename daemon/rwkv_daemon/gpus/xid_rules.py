"""What XID errors mean: NVIDIA's catalogue for Ampere and newer (docs.nvidia.com/deploy/xid-errors/, the edition that
goes with driver R575), reduced to what the daemon does about each.

Two sources are joined. The catalogue's column "Resolution Bucket (Immediate Action)" says RESTART_APP, IGNORE, or an
action on the GPU or the node. NVIDIA's device plugin for Kubernetes leaves 13, 31, 43, 45, 68 and 109 to the
application; so do we, since cordoning a GPU for them is what others filed as a bug. A code that is in neither is
treated as the GPU's.
"""

from typing import Final, Literal

Blame = Literal["application", "notice", "gpu"]
"""What an error concerns: the process that it names, nothing (it is only logged and counted), or the GPU."""

APPLICATION: Final = {
    8: "GPU stopped processing",
    11: "invalid or corrupted push buffer stream",
    13: "graphics engine exception: an illegal access or instruction of the application",
    25: "invalid or illegal push buffer stream",
    31: "GPU memory page fault of the application",
    32: "invalid or corrupted push buffer stream",
    39: "copy engine exception",
    40: "copy engine exception",
    41: "copy engine exception",
    43: "GPU stopped processing of one application",
    45: "preemptive cleanup after an application ended",
    60: "video processor exception",
    68: "video decoder exception",
    69: "graphics engine class error",
    70: "copy engine error",
    71: "copy engine error",
    72: "copy engine error",
    75: "copy engine error",
    76: "copy engine error",
    77: "copy engine error",
    80: "corrupted data sent to the GPU",
    85: "copy engine error",
    94: "memory error, contained to one application",
    109: "context switch timeout",
    **dict.fromkeys((82, *range(99, 106)), "JPEG engine error"),
    **dict.fromkeys((83, 84, 88, 89, 96, 97, 98), "video decoder error"),
    **dict.fromkeys((86, 139), "optical flow engine error"),
    **dict.fromkeys(range(126, 136), "copy engine error"),
}
NOTICE: Final = {
    14: "injected error",
    37: "driver firmware error",
    38: "driver firmware error",
    44: "graphics engine fault during a context switch",
    63: "memory row remapped",
    66: "illegal access by the driver",
    67: "illegal access by the driver",
    92: "high rate of corrected memory errors",
    93: "InfoROM wear limit",
    106: "test message",
    107: "test message",
    108: "NVLink remote translation error",
    121: "corrected errors on the link to the CPU",
    137: "NVLink privilege error of an application",
    141: "CUDA fast path error",
    152: "DLA memory error",
    153: "DLA timeout",
    154: "recovery action changed",  # what it changed to is asked for in every thorough look
    160: "channel retired",
    161: "channel could not be retired",
}
GPU: Final = {
    46: "GPU stopped processing; it needs a reset",
    48: "uncorrectable memory error",
    54: "auxiliary power is not connected",
    62: "internal micro-controller halted",
    64: "memory row could not be remapped",
    74: "NVLink error",
    78: "vGPU start error",
    79: "GPU has fallen off the bus",
    95: "memory error, not contained",
    110: "security fault",
    119: "GSP firmware did not answer",
    120: "GSP firmware error",
    136: "link training failed",
    140: "unrecovered memory error",
    143: "GPU initialisation error",
    **dict.fromkeys(range(144, 151), "NVLink error"),
    151: "key rotation error",
    155: "NVLink went down",
    156: "resource retired",
    157: "resource could not be retired",
    158: "fatal timeout",
    159: "error on the link to the CPU",
    167: "fatal PCIe timeout",
    168: "reduced memory capacity",
    169: "internal micro-controller halted",
    171: "uncorrectable DRAM error",
    172: "uncorrectable SRAM error",
}
ENDS_THE_CONTEXT: Final = frozenset(APPLICATION) - {45}
"""After these errors a process computes no more: its CUDA context is gone. 45 only says that some process was cleaned
up."""


CONTAINED: Final = 94
"""A memory error that ended one application and left the GPU usable."""


def is_hardware(code: int) -> bool:
    """Whether the hardware caused the error, whatever an application computed; then the application is not to blame."""
    return code == CONTAINED or blame(code) == "gpu"


def blame(code: int) -> Blame:
    """Return what an XID code concerns: the application, nobody (`notice`), or the GPU, which also stands for unknown
    codes."""
    if code in APPLICATION:
        return "application"
    return "notice" if code in NOTICE else "gpu"


def sentence(code: int) -> str:
    """Return a code with its meaning, such as `XID 79 (GPU has fallen off the bus)`."""
    meaning = (APPLICATION | NOTICE | GPU).get(code, "not in the catalogue")
    return f"XID {code} ({meaning})"
