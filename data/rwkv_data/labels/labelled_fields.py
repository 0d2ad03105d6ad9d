"""The fields of rows together with their labels, as `where` and `order` name both."""

from collections.abc import Iterator, Mapping, Sequence

from rwkv_data.definition import row_filter, row_order
from rwkv_data.definition.errors import SettingError
from rwkv_data.definition.row_fields import LatestResults, RowFields, check_order
from rwkv_data.definition.row_filter import FieldPart, RowFilter, unknown_field
from rwkv_data.labels.label_file import StoredLabels


class LabelledFields:
    """Fields of rows and labels. A name means the rows' own field, else the newest labels of that name unless they are
    meant by version only; with a version (`difficulty@1a2b3c4d`) it means those labels alone."""

    def __init__(self, fields: RowFields, labels: Sequence[StoredLabels]) -> None:
        """`labels`: of each name the newest last, as `labels_of` returns them."""
        self._fields = fields
        self._matches, self._orders = LatestResults[RowFilter, bytes](), LatestResults[str, Sequence[int]]()
        self._newest = {
            one.labels.field: one
            for one in labels
            if one.labels.field not in fields.kinds and one.labels.by_version is not True
        }
        self._versions = {one.name: one for one in labels}
        self._columns = {name: one.column for name, one in self._versions.items()}

    @property
    def kinds(self) -> Mapping[str, str]:
        """What each field and each label holds, by name, without versions."""
        return dict(self._fields.kinds) | {name: one.labels.kind for name, one in self._newest.items()}

    def pinned(self, name: str) -> str:
        """Return the name of labels with their version; that of a field as it is."""
        return self._newest[name].name if name in self._newest else self._fields.pinned(name)

    def column(self, name: str) -> Iterator[FieldPart]:
        """Yield a field or labels, part by part. Raises RowsDamagedError if their file is damaged."""
        pinned = self.pinned(name)
        if pinned in self._versions:
            return self._columns[pinned].column(self._versions[pinned].labels.field)
        return self._fields.column(name)

    def matching(self, where: RowFilter) -> bytes:
        """Return a byte for each row: 1 if it matches. Raises SettingError for a name that means nothing, and
        RowsDamagedError."""
        if problem := unknown_field("where", where.fields, self.kinds, self._versions):
            raise SettingError(problem)
        pinned = where.renamed(self.pinned)
        return self._matches.of(pinned, lambda: row_filter.matching(pinned, self.column))

    def ordered(self, name: str) -> Sequence[int]:
        """Return the rows that have a number in a field or labels, by that number. Raises SettingError for a name that
        means nothing, and RowsDamagedError."""
        check_order(name, self.kinds, self._versions)
        pinned = self.pinned(name)
        return self._orders.of(pinned, lambda: row_order.ascending(self.column(pinned)))
