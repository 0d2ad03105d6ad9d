"""`rwkvctl weights list`, `show`, `verify`, `inspect`, `merge` and `download`: run by the program of rwkv_weights."""

import json
from pathlib import Path
from typing import Final, NoReturn

from rwkvctl.cli.context import Context
from rwkvctl.cli.exec_module import as_owner, become
from rwkvctl.cli.registry import verb
from rwkvctl.protocol.errors import RwkvctlError
from rwkvctl.text.shell_words import as_typed

LONGEST_ARGUMENT: Final = 100_000
"""Bytes that the kernel surely takes as one argument (its limit is 128 KiB)."""


@verb
def weights_list(context: Context) -> NoReturn:
    """Checkpoints of this node, without a daemon: names, sizes, sha256.

    All checkpoints in the weights folder (.pth, .safetensors, folders in the
    Hugging Face layout), and the built-in checkpoint.

    $ rwkvctl weights list
    """
    become("rwkv_weights", "list", "--known", known(context), *common(context))


@verb
def weights_show(context: Context, model: str) -> NoReturn:
    """One checkpoint in detail: layers, ranks, parameters, memory, or why it cannot run.

    model: a path, a name, or a unique part of a name

    $ rwkvctl weights show builtin
    $ rwkvctl weights show rwkv7-g1d-0.1b-20260129-ctx8192
    $ rwkvctl weights show /mnt/models/rwkv7-1.5B-world
    """
    become("rwkv_weights", "show", *common(context), "--", model)


@verb
def weights_verify(context: Context, model: str, *, sha256: str = "") -> NoReturn:
    """Read a whole checkpoint and check names, shapes, finite numbers and sha256.

    The sha256 is compared with --sha256, with FILE.sha256 beside the file
    (download writes it), and with that of an earlier reading of the same file.

    model: a path, a name, or a unique part of a name
    sha256: what the file's sha256 must be

    $ rwkvctl weights verify rwkv7-g1d-0.1b-20260129-ctx8192
    """
    given = ["--sha256", sha256] if sha256 else []
    become("rwkv_weights", "verify", *given, *common(context), "--", model)


@verb
def weights_inspect(context: Context, adapter: str, *, base: str = "", init: str = "") -> NoReturn:
    """What an adapter is: its kind, ranks and alpha, and whether it fits a base.

    Kinds are told by tensors: LoRA, PiSSA, bone and bat of RWKV-PEFT, LoRA of
    PEFT, and tuned states.

    adapter: a file (.pth, .safetensors), or the folder that PEFT wrote
    base: check whether it fits this checkpoint: a path, a name, or a part of one
    init: the file of PiSSA's initial pairs, or none for a plain LoRA (default: init_pissa.pth beside it)

    $ rwkvctl weights inspect rwkv-12.pth
    $ rwkvctl weights inspect rwkv-12.pth --base rwkv7-g1d-1.5b
    """
    given = [f"--base={base}"] if base else []
    given += [f"--init={init}"] if init else []
    become("rwkv_weights", "inspect", *given, *common(context), "--", adapter)


@verb
def weights_merge(
    context: Context,
    adapter: str,
    *,
    base: str,
    to: str,
    alpha: float | None = None,
    init: str = "",
    bf16_between: bool = False,
    replace: bool = False,
) -> NoReturn:
    """Write a checkpoint in which an adapter is merged into its base.

    Before a byte is written are checked: names, shapes and ranks, what is said of
    the base, NaN in the adapter, and the free space; while it is written, NaN in
    the base and in the sums. Sums are made in fp32 and stored in the base's type.

    Of a LoRA, alpha is part of the result: it is taken from PEFT's
    adapter_config.json, from FILE.json ({"alpha": 32}), or from --alpha, and
    without one nothing is merged.

    adapter: a file (.pth, .safetensors), or the folder that PEFT wrote
    base: the checkpoint that was trained on: a path, a name, or a part of one
    to: the file to write, .pth
    alpha: alpha of a LoRA, as it was in training
    init: the file of PiSSA's initial pairs, or none for a plain LoRA (default: init_pissa.pth beside it)
    bf16_between: round PiSSA's difference to bf16, as RWKV-PEFT's script does
    replace: write over a file that is there

    $ rwkvctl weights merge rwkv-12.pth --base rwkv7-g1d-1.5b --alpha 32 --to merged.pth
    """
    given = [f"--base={base}", f"--to={to}"]
    given += [f"--alpha={alpha!r}"] if alpha is not None else []
    given += [f"--init={init}"] if init else []
    given += ["--bf16-between"] if bf16_between else []
    given += ["--replace"] if replace else []
    as_owner(Path(to).absolute().parent, as_typed(["weights", "merge", *given, adapter]))
    become("rwkv_weights", "merge", *given, *common(context), "--", adapter)


@verb
def weights_download(
    context: Context,
    *,
    repo: list[str] = [],  # noqa: B006 - read by the registry, never written
    match: list[str] = [],  # noqa: B006
    to: str = "",
    revision: str = "",
    workers: int = 4,
    list_: bool = False,
    dry_run: bool = False,
) -> NoReturn:
    """Download checkpoints from the Hugging Face hub, resumable and verified.

    Without --repo and --match it lists the files of BlinkDL/rwkv7-g1. An
    interrupted download continues where it stopped, a complete file is not
    downloaded again, and a file gets its name only when its sha256 matches the
    hub's. HF_ENDPOINT, HF_TOKEN and HF_HUB_OFFLINE are respected. Files come
    by xet if the hub has them there, and by plain HTTP with
    HF_HUB_DISABLE_XET=1.

    repo: repositories, OWNER/NAME (default BlinkDL/rwkv7-g1)
    match: only files that match one of these patterns
    to: the folder to download to (default: the weights folder)
    revision: a branch, tag or commit
    workers: files to download at once
    list_: only list the files, and which of them are here
    dry_run: only show what would be downloaded, and whether it fits on the disk

    $ rwkvctl weights download --list
    $ rwkvctl weights download --match 'rwkv7-g1h-1.5b*' 'rwkv7-g1d-0.1b*'
    $ rwkvctl weights download --repo fla-hub/rwkv7-1.5B-world
    """
    if match and not (to or list_ or dry_run):
        as_owner(context.config.weights_dir, as_typed(["weights", "download", "--match", *match]))
    words = ["--repo", *repo] if repo else []
    words += ["--match", *match] if match else []
    words += [f"--to={to}"] if to else []
    words += [f"--revision={revision}"] if revision else []
    words += ["--list"] if list_ else []
    words += ["--dry-run"] if dry_run else []
    become("rwkv_weights", "download", *words, "--workers", str(workers), *common(context))


def common(context: Context) -> list[str]:
    """Return the flags for the program of rwkv_weights: the folders, and the wanted output."""
    where = ["--home", str(context.config.home), "--weights-dir", str(context.config.weights_dir)]
    return [*where, *(["--output", context.output] if context.output else [])]


def known(context: Context) -> str:
    """{path: sha256} of the checkpoints that the daemon has hashed; empty if no daemon answers."""
    try:
        items = context.client.get("/v1/models").value["items"]
    except RwkvctlError:
        return "{}"
    told = json.dumps({item["path"]: item["sha256"] for item in items if item.get("sha256")})
    return told if len(told) <= LONGEST_ARGUMENT else "{}"
