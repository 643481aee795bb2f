"""Accounts, merchants and devices: HeteroData, a detector, its reasons.

python examples/hetero_data.py
"""

import numpy as np
import torch

from torch_geometric.data import HeteroData
from torch_geometric.transforms import ToUndirected

from torch_energy_graph.data import from_hetero
from torch_energy_graph.detect import EnergyFraudDetector


def make_graph(accounts=400, merchants=40, devices=120):
    """Every eighth account is fraudulent; these share few devices."""
    draw = np.random.default_rng(0)
    fraud = np.arange(accounts) % 8 == 0
    amounts = draw.normal(size=(accounts, 3)) + 0.8 * fraud[:, None]
    device = np.where(
        fraud, draw.integers(40, size=accounts), draw.integers(devices)
    )
    data = HeteroData()
    data['account'].x = torch.from_numpy(amounts).float()
    data['account'].y = torch.from_numpy(fraud.astype(np.int64))
    data['merchant'].x = torch.randn(merchants, 2)
    data['device'].x = torch.ones(devices, 1)
    payer = torch.arange(accounts).repeat(3)
    shop = torch.from_numpy(draw.integers(merchants, size=3 * accounts))
    data['account', 'pays', 'merchant'].edge_index = torch.stack([payer, shop])
    uses = torch.stack([torch.arange(accounts), torch.from_numpy(device)])
    data['account', 'uses', 'device'].edge_index = uses
    return ToUndirected()(data)  # two more relations


def main(epochs=20):
    torch.manual_seed(0)
    graph = from_hetero(make_graph())  # other node types have label -1
    test = torch.zeros(graph.num_nodes, dtype=torch.bool)
    test[:400] = torch.rand(400) < 0.3
    detector = EnergyFraudDetector(hidden_channels=16, epochs=epochs)
    detector.fit(graph, train_mask=(graph.y >= 0) & ~test)
    print(f'test AUPRC {detector.score(graph, test):.3f}')
    prob = torch.from_numpy(detector.predict_proba(graph)[:, 1])
    first = int(prob.masked_fill(~test, -1).argmax())
    reasons = detector.explain(graph, graph.node_id[first], top=3)
    print(f'why {graph.node_id[first]}:')
    print(reasons.neighbor_table().head(3).to_string(index=False))


if __name__ == '__main__':
    main()
