"""Fetch one file: resume where it broke off, and check it before it gets its name.

The bytes come through `http_get` of huggingface_hub or its xet storage, and grow in a part of ours. `hf_hub_download`
does not do that: since 1.18 each try of it begins a new file, which is deleted when the try fails and stays for good
when the process is killed, so that no download resumes (test_hub_client.py shows it).
"""

import time
from typing import Final

from rwkv_weights.errors import HubError
from rwkv_weights.hub.choice import Item
from rwkv_weights.hub.part import Part, Tell, unwritable
from rwkv_weights.hub.remote import Hub, WrongBytesError, backoff
from rwkv_weights.local import new_file, sha256_sidecar
from rwkv_weights.local.checkpoint_files import FileIdentity
from rwkv_weights.local.sha256_cache import Sums

FRUITLESS: Final = 6
"""Attempts in a row that brought no bytes, before a file is given up."""


def fetch(hub: Hub, item: Item, sums: Sums, tell: Tell) -> None:
    """Fetch the file, give it its name when it is whole and on the disk, and remember its digest. Raises HubError or
    WeightsError; all but wrong bytes stay for the next run."""
    try:
        item.target.parent.mkdir(parents=True, exist_ok=True)
        with Part(item, tell) as part:
            part.take_up()
            _right(hub, part)
            part.sync()
            new_file.name_it(part.path, item.target)
        if item.remote.sha256:
            sha256_sidecar.write(item.target, item.remote.sha256)
            sums.remember(item.target, FileIdentity.of(item.target), item.remote.sha256)
    except OSError as error:
        raise unwritable(item.target, error) from error


def _right(hub: Hub, part: Part) -> None:
    """Fetch all bytes and check them; once more from the beginning and without xet if they are wrong, and none are kept
    if they are wrong again."""
    try:
        _all(hub, part, xet=True)
    except WrongBytesError:
        part.truncate()
        try:
            _all(hub, part, xet=False)
        except WrongBytesError as error:
            part.path.unlink()
            raise WrongBytesError(f"{error}, fetched twice; they are thrown away.") from None


def _all(hub: Hub, part: Part, *, xet: bool) -> None:
    """Ask until every byte is there. An attempt that brings bytes resets the count of fruitless ones."""
    fruitless = 0
    while part.tell() < part.remote.size:
        before = part.tell()
        try:
            hub.pour(part.remote, part, xet=xet)
        except HubError as error:
            fruitless = 1 if part.tell() > before else fruitless + 1
            if not error.passing or fruitless >= FRUITLESS:
                raise
            time.sleep(backoff(fruitless, error.wait_s))
    part.check()
