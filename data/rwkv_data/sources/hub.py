"""Raw rows of the Hugging Face hub. The libraries find endpoint, token and cache by themselves (HF_ENDPOINT, HF_TOKEN,
HF_HOME, HF_HUB_OFFLINE); they are imported here only, when rows are fetched.
"""

import contextlib
from collections.abc import Iterator

from rwkv_data.benchmark import HubSource
from rwkv_data.errors import PrepareError
from rwkv_data.sources.local import Placed


def revision_of(source: HubSource) -> str:
    """The commit that the source's revision (or its newest state) is now, so that exactly that one is fetched."""
    with _one_line(source):
        import huggingface_hub

        return str(huggingface_hub.HfApi().dataset_info(source.repo, revision=source.revision).sha)


def read(source: HubSource, revision: str) -> Iterator[Placed]:
    """The raw rows of one split at one commit, each with where it stands."""
    with _one_line(source):
        import datasets

        datasets.disable_progress_bars()
        table = datasets.load_dataset(source.repo, source.config, split=source.split, revision=revision)
    for number, row in enumerate(table, 1):
        yield f"{source.repo}@{revision[:12]} {source.config}/{source.split} row {number}", dict(row)


@contextlib.contextmanager
def _one_line(source: HubSource) -> Iterator[None]:
    """Whatever the libraries raise about repository, network or files as one line."""
    try:
        from datasets.exceptions import DatasetsError
        from huggingface_hub.errors import HfHubHTTPError
    except ImportError as error:
        raise PrepareError(f"fetching rows needs the extra rwkvctl[daemon] ({error})") from None
    try:
        yield
    # The bases of the hub's own error are OSError and the error of its HTTP library, whichever one it uses.
    except (*HfHubHTTPError.__bases__, DatasetsError, ValueError) as error:
        detail = " ".join(str(error).split())[:300]
        reason = f"{type(error).__name__}: {detail}"
        raise PrepareError(f"{source.repo} cannot be fetched from the hub ({reason})") from error
