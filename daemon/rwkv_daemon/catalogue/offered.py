"""What can be measured on this node, as the daemon holds it in memory."""

from dataclasses import dataclass, field

from rwkv_daemon.catalogue.contents import NodeBenchmarks
from rwkv_daemon.catalogue.regex_guard import Searches
from rwkv_daemon.host.shown_files import ShownFiles
from rwkv_daemon.rules.file_settling import Settling
from rwkv_daemon.scheduling.endpoint_models import EndpointModels


@dataclass(slots=True)
class NodeCatalogue:
    """The benchmarks with their rows, the models behind endpoints, the checkpoints that are being copied, the
    searches by `--model-regex` in progress, and the files that users have shown."""

    benchmarks: NodeBenchmarks
    endpoints: EndpointModels = field(default_factory=EndpointModels)
    settling: Settling = field(default_factory=Settling)
    searches: Searches = field(default_factory=Searches)
    shown_files: ShownFiles = field(default_factory=ShownFiles)
