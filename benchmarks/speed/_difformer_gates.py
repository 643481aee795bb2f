"""What the layer has to reach, and whether it does."""

from dataclasses import dataclass

# heads, with a graph: least ratio to the released form, and the goal
RATIOS = {
    (1, False): (2.2, 3.0),
    (4, False): (7.0, 9.0),
    (1, True): (2.0, 2.5),
    (4, True): (5.0, 6.5),
}
PEERS = ('SGFormerAttention', 'PerformerAttention')


@dataclass
class Gate:
    """One requirement; `value` has to be `least` or more."""

    what: str
    value: float
    least: float
    goal: float

    @property
    def holds(self):
        return self.value >= self.least

    def __str__(self):
        goal = '' if self.goal == self.least else f', goal {self.goal:g}x'
        met = 'holds' if self.holds else 'FAILS'
        return (
            f'gate {met}: {self.what} {self.value:.2f}x '
            f'(gate {self.least:g}x{goal})'
        )


def gates_of(rows):
    """Gates of one case: forward and backward, CPU time of one thread.

    Args:
        rows (list): Rows with their ratios to the released form, the first.

    Returns:
        list: Empty for sizes that nothing is required of.
    """
    by_name = {row['method']: row for row in rows if row['note'] is None}
    first, ours = rows[0], by_name.get('teg global')
    case = first['heads'], first['edges'] > 0
    sizes = first['nodes'], first['channels'], first['threads']
    if sizes != (100_000, 64, 1) or case not in RATIOS or ours is None:
        return []
    where = f'H={case[0]}, {"with" if case[1] else "without"} graph:'
    ratio = ours['train_ratio']
    gates = [Gate(f'{where} released / ours', ratio, *RATIOS[case])]
    memory = first['peak_train_mib'] / ours['peak_train_mib']
    gates.append(Gate(f'{where} memory, released / ours', memory, 2, 2))
    if case[0] == 4 and 'teg node' in by_name:
        node = by_name['teg node']['train_ratio']
        gates.append(Gate(f'{where} released / node norms', node, 1, 1))
    for name in PEERS:
        if name in by_name:
            value = ratio / by_name[name]['train_ratio']
            gates.append(Gate(f'{where} {name} / ours', value, 1, 1))
    return gates
