"""Which column is what: how two tables become a graph."""

import dataclasses
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, get_args

from torch_energy_graph.data.tables.table import nearest

__all__ = ['TableLayout', 'read_layout']

MissingNodes = Literal['error', 'add', 'drop']

# columns that may be absent under their default names
_OPTIONAL = {'label': 'label', 'relation': 'type'}


@dataclasses.dataclass(frozen=True)
class TableLayout:
    """Names the columns of a node table and of an edge table.

    All other columns are features. The default names of labels and relations
    are used if such a column exists; any other name has to exist, so that a
    misspelt label never becomes a feature.

    Args:
        id (str, optional): Node ids, any text or whole numbers, in the node
            table. (default: :obj:`'id'`)
        label (str, optional): Labels 0 (normal), 1 (anomalous) and -1 or an
            empty cell (unknown), in the node table; :obj:`None` reads none.
            (default: :obj:`'label'`)
        source (str, optional): Id of an edge's source.
            (default: :obj:`'source'`)
        target (str, optional): Id of an edge's target.
            (default: :obj:`'target'`)
        relation (str, optional): Type of an edge, in the edge table;
            :obj:`None` reads none. (default: :obj:`'type'`)
        positive (str, optional): The label of anomalies, if labels are not 0
            and 1; all other known labels are normal. (default: :obj:`None`)
        unknown (tuple of str, optional): Labels that mean "unknown".
            (default: :obj:`()`)
        ignore (tuple of str, optional): Columns that are no features.
            (default: :obj:`()`)
        categorical (tuple of str, optional): Columns whose numbers are codes.
            (default: :obj:`()`)
        timestamps (tuple of str, optional): Columns of ISO 8601 times or Unix
            seconds; ISO times are also found without. (default: :obj:`()`)
        directed (bool, optional): Whether a row is an edge from source to
            target only. Otherwise each row is an edge in both directions,
            unless the table holds both already. (default: :obj:`False`)
        missing_nodes (str, optional): What to do with edges whose ids are in
            no row of the node table: 'error'; 'add' nodes whose features are
            missing; or 'drop' these edges. (default: :obj:`'error'`)
    """

    id: str = 'id'
    label: str | None = 'label'
    source: str = 'source'
    target: str = 'target'
    relation: str | None = 'type'
    positive: str | None = None
    unknown: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    categorical: tuple[str, ...] = ()
    timestamps: tuple[str, ...] = ()
    directed: bool = False
    missing_nodes: MissingNodes = 'error'

    def __post_init__(self) -> None:
        for field in dataclasses.fields(self):
            value = _checked(field.name, getattr(self, field.name))
            object.__setattr__(self, field.name, value)
        if self.missing_nodes not in get_args(MissingNodes):
            raise ValueError(
                f"'TableLayout' expects missing_nodes as one of "
                f'{", ".join(get_args(MissingNodes))} (got '
                f'{self.missing_nodes!r})'
            )
        if self.id == self.label:
            raise ValueError(
                "'TableLayout' expects other columns for id and label"
            )
        ends = [self.source, self.target, self.relation]
        if len({*ends}) < 3:
            raise ValueError(
                f"'TableLayout' expects three columns for source, target and "
                f'relation (got {ends})'
            )
        both = {*self.categorical} & {*self.timestamps}
        if both:
            raise ValueError(
                f"'TableLayout' has {sorted(both)} in categorical and in "
                f'timestamps; choose one'
            )

    def optional(self, field: str) -> bool:
        """Whether the column of a field may be absent."""
        return bool(getattr(self, field) == _OPTIONAL[field])

    def for_scoring(self) -> 'TableLayout':
        """The layout of a table to be scored, which may lack labels.

        What a column means is known from training then, and columns without
        a meaning are left aside.
        """
        return dataclasses.replace(
            self,
            label=None,
            positive=None,
            unknown=(),
            ignore=(),
            categorical=(),
            timestamps=(),
        )

    def to_dict(self) -> dict[str, Any]:
        """The fields, ready for JSON."""
        return dataclasses.asdict(self)

    @classmethod
    def from_dict(cls, fields: Mapping[str, Any]) -> 'TableLayout':
        """A layout from its fields; ValueError for a field there is not."""
        known = [field.name for field in dataclasses.fields(cls)]
        for name in fields:
            if name not in known:
                hint = nearest(str(name), known)
                raise ValueError(f"'TableLayout' has no '{name}'; {hint}")
        return cls(**fields)


def read_layout(path: Path) -> TableLayout:
    """The layout in a JSON file; the default one if there is no file."""
    if not path.is_file():
        return TableLayout()
    try:
        fields = json.loads(path.read_text(encoding='utf-8'))
        if not isinstance(fields, dict):
            raise TypeError('expected an object of fields')
        return TableLayout.from_dict(fields)
    except (TypeError, ValueError) as error:
        raise ValueError(f"bad layout in '{path}': {error}") from error


def _checked(name: str, value: Any) -> Any:
    """The value of a field, lists as tuples; TypeError if it cannot be."""
    if name == 'directed':
        wanted, good = 'a bool', isinstance(value, bool)
    elif name in ('unknown', 'ignore', 'categorical', 'timestamps'):
        wanted = 'a tuple of str'
        good = isinstance(value, list | tuple)
        good = good and all(isinstance(item, str) for item in value)
        value = tuple(value) if good else value
    else:
        wanted, good = 'a str', isinstance(value, str) and value != ''
        if name in ('label', 'relation', 'positive'):
            wanted, good = 'a str or None', good or value is None
    if not good:
        raise TypeError(
            f"'TableLayout' expects {name} as {wanted} (got {value!r})"
        )
    return value
