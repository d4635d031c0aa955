"""Runs: training by a configuration, the folder that a run leaves, its verification and its audit.

`hlx.train`, `hlx.Run`, `hlx.verify` and `hlx.audit` are the names in the package itself.
"""

from hlx.runs._audit import Audit, AuditCheck, audit, check_audit, new_key
from hlx.runs._picture import Picture
from hlx.runs._run import Run
from hlx.runs._table import Table
from hlx.runs._train import train
from hlx.runs._verify import Verification, verify

__all__ = [
    "Audit",
    "AuditCheck",
    "Picture",
    "Run",
    "Table",
    "Verification",
    "audit",
    "check_audit",
    "new_key",
    "train",
    "verify",
]
