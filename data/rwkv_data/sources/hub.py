"""Raw rows of the Hugging Face hub. The libraries find endpoint, token and cache by themselves (HF_ENDPOINT, HF_TOKEN,
HF_HOME, HF_HUB_OFFLINE); they are imported here only, when rows are fetched.
"""

from collections.abc import Iterator

from rwkv_data.benchmark import HubSource
from rwkv_data.errors import PrepareError
from rwkv_data.sources.local import Placed


def revision_of(source: HubSource) -> str:
    """The commit that the source's revision (or its newest state) is now, so that exactly that one is fetched."""
    import huggingface_hub

    try:
        commit = huggingface_hub.HfApi().dataset_info(source.repo, revision=source.revision).sha
    except (OSError, ValueError) as error:
        raise PrepareError(_sentence(source, error)) from error
    return str(commit)


def read(source: HubSource, revision: str) -> Iterator[Placed]:
    """The raw rows of one split at one commit, each with where it stands."""
    import datasets

    datasets.disable_progress_bars()
    try:
        table = datasets.load_dataset(source.repo, source.config, split=source.split, revision=revision)
    except (OSError, ValueError, datasets.exceptions.DatasetsError) as error:
        raise PrepareError(_sentence(source, error)) from error
    for number, row in enumerate(table, 1):
        yield f"{source.repo}@{revision[:12]} {source.config}/{source.split} row {number}", dict(row)


def _sentence(source: HubSource, error: Exception) -> str:
    """One line, whatever the libraries print."""
    detail = " ".join(str(error).split())[:300]
    return f"{source.repo} cannot be fetched from the hub ({type(error).__name__}: {detail})"
