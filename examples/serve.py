"""Serve a detector: scores of new accounts as JSON.

TEG_MODEL=runs/my/model TEG_TABLES=my uvicorn --app-dir examples serve:app

Without TEG_TABLES, each request brings the whole graph.
"""

import os
from typing import Any

import pandas as pd
from fastapi import FastAPI, HTTPException
from pydantic import BaseModel

from torch_energy_graph.data import from_folder, from_pandas
from torch_energy_graph.detect import EnergyFraudDetector
from torch_energy_graph.detect.stream import score_batches

app = FastAPI(title='Scores of accounts')
detector = EnergyFraudDetector.load(os.environ['TEG_MODEL'])
layout = detector.preprocessing_.layout_.for_scoring()
known = os.environ.get('TEG_TABLES')
base = from_folder(known, layout) if known else None


class Tables(BaseModel):
    """Rows of both tables, by the names of their columns."""

    nodes: list[dict[str, Any]]
    edges: list[dict[str, Any]] = []


@app.post('/scores')
def scores(new: Tables):
    ends = None if new.edges else [layout.source, layout.target]
    edges = pd.DataFrame(new.edges, columns=ends)
    try:
        table = from_pandas(pd.DataFrame(new.nodes), edges, layout, base)
        first = base.num_nodes if base else 0
        batches = score_batches(
            detector, table, range(first, table.num_nodes), batch_size=1000
        )
        return pd.concat(batches).to_dict('records')
    except (TypeError, ValueError) as error:  # names row and column
        raise HTTPException(422, str(error)) from error
