"""The protocols that tasks can have."""

from __future__ import annotations

from typing import get_args

from ikos.deployment.frequencies import FrequenciesTerms
from ikos.deployment.helpers import HelpersTerms
from ikos.deployment.masks import MasksTerms
from ikos.deployment.shares import SharesTerms
from ikos.deployment.terms import Terms
from ikos.deployment.verified import VerifiedTerms

AnyTerms = SharesTerms | MasksTerms | HelpersTerms | FrequenciesTerms | VerifiedTerms
"""The terms of each."""

TERMS: dict[str, type[Terms]] = {terms.kind: terms for terms in get_args(AnyTerms)}
