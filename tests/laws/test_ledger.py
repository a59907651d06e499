"""Laws of money: whatever happens in which order, nothing is promised past a ceiling or given back twice."""

from __future__ import annotations

import asyncio
import os
from contextlib import suppress
from typing import Any

from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, initialize, invariant, rule
from random_scenarios import BODIES, NoDiskError, Runner, Stopping

from rulvar import Ctx, define_workflow
from rulvar.errors import StoreError
from rulvar.kernel.ledger import Account, Denial, Ledger, Reservation, micro_usd
from rulvar.testing import FAKE_MODEL_REF, create_test_engine

EXAMPLES = int(os.environ.get("RULVAR_FUZZ_EXAMPLES", "40"))  # more of them for a longer look
AMOUNTS = st.one_of(
    st.integers(0, 5_000_000).map(lambda micro: micro / 1_000_000), st.floats(0, 3, allow_subnormal=True)
)
CEILINGS = st.one_of(st.none(), AMOUNTS)


class LedgerMachine(RuleBasedStateMachine):
    """Calls and children come and go; a call spends at most what it was promised."""

    accounts = Bundle("accounts")
    promises = Bundle("promises")

    @initialize(target=accounts, ceiling=CEILINGS, spent=AMOUNTS)
    def start(self, ceiling: float | None, spent: float) -> str:
        self.ledger = Ledger(ceiling, spent)
        self.open: list[tuple[str, int]] = []
        self.names = ["run"]
        self.over = (
            self.ledger.root.spent
        )  # what an earlier segment spent may be past a ceiling that came later
        return "run"

    @rule(
        target=accounts,
        parent=accounts,
        share=st.floats(0.01, 1),
        most=st.one_of(st.none(), st.integers(0, 10**6)),
    )
    def open_child(self, parent: str, share: float, most: int | None) -> str:
        name = f"{parent}/{len(self.names)}"
        left = self.ledger.account(parent).remaining
        child = self.ledger.open(name, parent, share, most)
        self.names.append(name)
        if share >= 1:
            assert (
                child.ceiling == most
            )  # what bounds its parent bounds it: nothing is promised that is not there
        elif left is not None:
            assert child.ceiling is not None
            assert 0 <= child.ceiling <= left
        return name

    @rule(target=promises, name=accounts, amount=AMOUNTS)
    def promise(self, name: str, amount: float) -> Reservation | Denial:
        before = self.state()
        given_or_not = self.ledger.reserve(name, amount)
        chain = list(self.chain(name))
        fits = all(
            account.ceiling is None
            or (
                account.spent + account.reserved + micro_usd(amount) <= account.ceiling
                and account.spent + account.reserved < account.ceiling
            )
            for account in (
                Account("", None, c, spent=s, reserved=r) for c, s, r in (before[a] for a in chain)
            )
        )
        assert isinstance(given_or_not, Reservation) == fits
        if isinstance(given_or_not, Denial):
            assert self.state() == before  # a refusal promises nothing anywhere
            assert given_or_not.account in chain
        else:
            self.open.append((name, given_or_not.amount))
        return given_or_not

    @rule(promise=consumes(promises), part=st.floats(0, 1), twice=st.booleans())
    def settle(self, promise: Reservation | Denial, part: float, twice: bool) -> None:
        if isinstance(promise, Denial):
            return
        self.ledger.spend(promise.account.name, int(promise.amount * part) / 1_000_000)
        for _ in range(1 + twice):
            self.ledger.release(promise)
        self.open.remove((promise.account.name, promise.amount))

    @invariant()
    def nothing_is_negative_and_no_ceiling_is_passed(self) -> None:
        for name in getattr(self, "names", ()):
            account = self.ledger.account(name)
            assert account.spent >= 0
            assert account.reserved >= 0
            assert account.remaining is None or account.remaining >= 0
            if account.ceiling is not None:
                assert account.spent + account.reserved <= max(account.ceiling, self.over)

    @invariant()
    def what_is_reserved_is_what_is_promised_and_open(self) -> None:
        for name in getattr(self, "names", ()):
            below = [amount for owner, amount in self.open if owner == name or owner.startswith(f"{name}/")]
            assert self.ledger.account(name).reserved == sum(below)

    def state(self) -> dict[str, tuple[int | None, int, int]]:
        accounts = {name: self.ledger.account(name) for name in self.names}
        return {name: (item.ceiling, item.spent, item.reserved) for name, item in accounts.items()}

    def chain(self, name: str) -> Any:
        while True:
            yield name
            if name == "run":
                return
            name = name.rpartition("/")[0]


TestLedger = LedgerMachine.TestCase
TestLedger.settings = settings(max_examples=40, stateful_step_count=20, deadline=None)


CALLS = st.lists(st.tuples(st.floats(0, 0.4), st.booleans()), min_size=1, max_size=6)


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(branches=st.lists(CALLS, min_size=1, max_size=4), ceiling=st.floats(0, 1.5), child=st.booleans())
def test_a_run_spends_no_more_than_its_ceiling_where_calls_keep_their_promises(
    branches: list[list[tuple[float, bool]]], ceiling: float, child: bool
) -> None:
    """Every call costs a thousandth of a dollar per token of its answer, and says so before."""

    def answer(call: Any) -> str:
        return "word" * int(call.prompt.rpartition(" ")[2])

    async def branch(ctx: Ctx, number: int, calls: list[tuple[float, bool]]) -> None:
        for place, (cost, swallows) in enumerate(calls):
            tokens = max(1, int(cost * 1000))
            try:
                await ctx.agent(f"{number} {place} {tokens}", est_cost=tokens / 1000)
            except Exception:
                if not swallows:
                    raise

    async def body(ctx: Ctx, args: Any) -> None:
        await ctx.parallel([lambda n=n, c=c: branch(ctx, n, c) for n, c in enumerate(branches)], settle=True)

    async def parent(ctx: Ctx, args: Any) -> None:
        await ctx.workflow(define_workflow("child", body))

    async def check() -> None:
        engine = create_test_engine(
            agents={"*": answer},
            pricing={FAKE_MODEL_REF: {"inputUsdPerMTok": 0, "outputUsdPerMTok": 1000}},
        )
        async with engine:
            run = engine.run(define_workflow("w", parent if child else body), budget_usd=ceiling, run_id="r")
            outcome = await run.result()
            assert outcome.cost.total_usd <= ceiling + 1e-9
            served = len(engine.fake.calls)
            asked = sum(len(calls) for calls in branches)
            assert outcome.status in ("ok", "exhausted")
            used_up = outcome.cost.total_usd >= ceiling - 1e-6
            assert outcome.status == "ok" or served < asked or used_up
            updates = [event.to_wire() async for event in run.events if event.type == "budget:update"]
            assert all(0 <= update["remainingUsd"] <= ceiling + 1e-6 for update in updates)
            assert all(update["committedReserveUsd"] >= 0 for update in updates)

    asyncio.run(check())


SPARE = {"agent": "spare a", "opts": {"fallback": {"model": "fake:backup", "on": ["error"]}}, "as": "a"}
FALLING_BACK = [
    {
        "pipeline": [1, 2],
        "stages": [[SPARE, {"return": ["{{a}}", "{{b}}"]}]],
        "onItemError": "drop",
        "as": "b",
    },
    {"return": ["{{a}}", "{{b}}"]},
]


@settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck))
@given(body=BODIES, ceiling=st.floats(0, 1), where=st.floats(0, 1), live=st.booleans())
@example(body=FALLING_BACK, ceiling=0.30078125, where=0.0, live=False)
def test_a_random_workflow_admits_nothing_past_its_ceiling_over_a_stop_and_its_resumes(
    body: Any, ceiling: float, where: float, live: bool
) -> None:
    async def check() -> None:
        whole, runner = Stopping(), Runner(body, ceiling=ceiling, live=live)
        outcomes = [await runner.to_the_end(whole)]
        stopped = Stopping(int(where * whole.appends))
        with suppress(NoDiskError, StoreError):  # the human's answer may find no disk
            await runner.to_the_end(stopped)
        store = await stopped.survived(ceiling)
        outcomes.append(await runner.to_the_end(store, resume=True))
        spent = outcomes[-1].cost.total_usd
        # a call that was refused beside others may be admitted once those have ended
        again, preview = await runner.segment(store, resume=True)
        assert again.cost.total_usd >= spent
        assert preview.reruns or preview.misses or again.cost.total_usd == spent
        for outcome in [*outcomes, again]:
            assert outcome.status in ("ok", "exhausted", *(["suspended"] if outcome is again else []))
            assert 0 <= outcome.cost.total_usd <= ceiling + 1e-9
        for updates in runner.updates:
            promised = 0.0
            for update in updates:
                assert 0 <= update["remainingUsd"] <= ceiling + 1e-6
                assert update["committedReserveUsd"] >= 0
                if update["committedReserveUsd"] > promised:  # a call was admitted
                    assert update["spentUsd"] + update["committedReserveUsd"] <= ceiling + 2e-6
                promised = update["committedReserveUsd"]

    asyncio.run(check())
