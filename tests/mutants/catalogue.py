"""The list: what could be wrong, said as a fact about the mutated code.

`old` stands exactly once in its file and is replaced by `new`. `noticed_by` are pytest targets, or
a number of the simulator's seeds, in the order in which they are asked: the first that fails has
noticed it. They say where it ought to be noticed, the fastest first.
"""

from __future__ import annotations

from dataclasses import dataclass

from tests.mutants import attacks

INV, ROW, SAID = attacks.Invariant, attacks.Row, attacks.Promise


@dataclass(frozen=True, slots=True)
class Mutant:
    name: str
    attacks: tuple[attacks.Attack, ...]
    file: str
    old: str
    new: str
    noticed_by: tuple[str | int, ...]


CORE = "tests/core"
ENGINE = "tests/engine"
ASKED = (f"{ENGINE}/test_requests.py", f"{ENGINE}/test_late_answers.py")
STORE = "tests/contracts/test_store.py"
SCRIPTS = "tests/store/test_differential.py"
INFLICTED = "tests/store/test_faults_inflicted.py"
QUESTIONS = "tests/kafka/test_questions.py"
SIMULATED = 800

VERDICT_PY = "sidecar/core/verdict.py"
OVERLAP_PY = "sidecar/core/overlap.py"
RESOLUTION_PY = "sidecar/core/resolution.py"
HAND_PY = "sidecar/engine/hand.py"
RECOVERY_PY = "sidecar/engine/recovery.py"
DELIVERY_PY = "sidecar/engine/delivery.py"
COMMITS_PY = "sidecar/engine/commits.py"
CURSOR_PY = "sidecar/engine/cursor.py"
CONTEXT_PY = "sidecar/engine/context.py"
WRITES_PY = "sidecar/engine/writes.py"
MEMBERSHIP_PY = "sidecar/engine/membership.py"
READING_PY = "sidecar/engine/reading.py"
REQUESTS_PY = "sidecar/engine/requests.py"
REPLAYS_PY = "sidecar/engine/replays.py"
FORECAST_PY = "sidecar/core/forecast.py"
CONDITIONS_PY = "sidecar/engine/conditions.py"
INSTALL_LUA = "sidecar/store/scripts/install-7.lua"
UPDATE_GAP_LUA = "sidecar/store/scripts/update-gap-2.lua"
ANSWER_LUA = "sidecar/store/scripts/answer-request-3.lua"
LEAVE_LUA = "sidecar/store/scripts/leave-request-3.lua"

MUTANTS: tuple[Mutant, ...] = (
    # --- stage 1: could identity be read? ---------------------------------------------------------
    Mutant(
        "a checkpoint that could not be read is taken for none",
        (INV.ABSENT_IS_NOT_ERROR, ROW.UNAVAILABLE),
        VERDICT_PY,
        "        evidence.stored,\n        evidence.registry,\n",
        "        evidence.registry,\n",
        (CORE, SIMULATED),
    ),
    Mutant(
        "an error beside a committed offset is taken for no commit",
        (INV.ABSENT_IS_NOT_ERROR, ROW.UNAVAILABLE),
        "sidecar/kafka/log.py",
        "        return Unreadable(fault_of(element.error))",
        "        return ABSENT",
        (f"{QUESTIONS}::test_a_right_that_is_missing_is_named_and_its_return_noticed",),
    ),
    Mutant(
        "a missing right is waited for as if it would pass",
        (ROW.UNAUTHORIZED,),
        VERDICT_PY,
        "    FaultKind.AUTHORIZATION: Verdict.AUTHORIZATION,",
        "    FaultKind.AUTHORIZATION: Verdict.UNAVAILABLE,",
        (CORE,),
    ),
    Mutant(
        "a topic that is unknown for a moment is unknown for good",
        (INV.TRANSIENT_CHANGES_NOTHING, ROW.TOPIC_UNKNOWN),
        VERDICT_PY,
        "verdict = Verdict.TOPIC_UNKNOWN if patient else Verdict.UNAVAILABLE",
        "verdict = Verdict.TOPIC_UNKNOWN",
        (CORE,),
    ),
    Mutant(
        "different answers in a row count as the same one that lasts",
        (INV.TRANSIENT_CHANGES_NOTHING, ROW.TOPIC_UNKNOWN, ROW.EPOCH_FELL),
        RECOVERY_PY,
        "elif cursor.same_answer == judged.answer:",
        "elif cursor.same_answer is not None:",
        (ENGINE, SIMULATED),
    ),
    Mutant(
        "bounds that cannot be read hide another topic ID",
        (INV.INCARNATION_PINNED, ROW.BOUNDS_UNREADABLE),
        VERDICT_PY,
        "        evidence.topic,\n    ):\n        if isinstance(reading, Unreadable):\n"
        "            return waiting(reading.fault, patient=patient)",
        "        evidence.topic,\n        evidence.log_end,\n    ):\n"
        "        if isinstance(reading, Unreadable):\n"
        "            return waiting(reading.fault, patient=patient)",
        (CORE,),
    ),
    # --- stage 2: identity ------------------------------------------------------------------------
    Mutant(
        "a checkpoint of another cluster is gone on from",
        (ROW.OTHER_PLACE,),
        VERDICT_PY,
        "if cluster is not None and cluster != facts.cluster_id:",
        "if cluster is not None and not cluster:",
        (CORE,),
    ),
    Mutant(
        "a witness of any store is believed",
        (ROW.OTHER_PLACE,),
        VERDICT_PY,
        "return store == registry.store or store in registry.predecessors",
        "return True",
        (CORE,),
    ),
    Mutant(
        "another topic ID is taken for the pinned one",
        (INV.INCARNATION_PINNED, ROW.RECREATED),
        VERDICT_PY,
        "if pinned is None or described == pinned:",
        "if pinned is None or described is not None:",
        (CORE, SIMULATED),
    ),
    Mutant(
        "a stale topic ID is taken for a topic created again",
        (INV.TRANSIENT_CHANGES_NOTHING, ROW.STALE_ID),
        VERDICT_PY,
        "if described is not None and described in former:",
        "if described is not None and described in former[:-1]:",
        (CORE,),
    ),
    Mutant(
        "fewer partitions under the same ID are believed at once",
        (ROW.STALE_ID,),
        VERDICT_PY,
        "if pinned is not None or not facts.patient:",
        "if pinned is None and not facts.patient:",
        (CORE,),
    ),
    Mutant(
        "a topic ID that was known and cannot be had is done without",
        (INV.INCARNATION_PINNED, ROW.PINNED_BY_NAME),
        VERDICT_PY,
        "if known is not None and described is None:",
        "if known is not None and described is not None and not described:",
        (CORE,),
    ),
    Mutant(
        "a topic that gains an ID gets other idempotency keys",
        (INV.REDELIVERY_FLAGGED, ROW.PINNED_BY_NAME),
        RECOVERY_PY,
        "keyed_by=checkpoint.identity.incarnation,",
        "keyed_by=None,",
        (ENGINE, SIMULATED),
    ),
    Mutant(
        "another isolation level is gone on with",
        (ROW.OTHER_SCOPE,),
        VERDICT_PY,
        "if checkpoint is None or checkpoint.identity.isolation is facts.evidence.isolation:",
        "if checkpoint is None or checkpoint.identity.isolation is not None:",
        (CORE,),
    ),
    Mutant(
        "a witness of a later release is taken for a stranger's",
        (ROW.NEWER_FORMAT,),
        "sidecar/core/witness.py",
        "        return NewerFormat(head)",
        "        return Foreign(head)",
        (CORE,),
    ),
    Mutant(
        "a checkpoint of a later format is written over",
        (ROW.NEWER_FORMAT,),
        INSTALL_LUA,
        "elseif kept[1] ~= FORMAT then",
        "elseif not kept[1] then",
        (f"{INFLICTED}::test_a_spoiled_checkpoint_is_unreadable_and_never_absent",),
    ),
    # --- stage 3: testimony -----------------------------------------------------------------------
    Mutant(
        "a greater generation tells a rollback",
        (ROW.AGREE,),
        VERDICT_PY,
        "    ours, theirs = _position(checkpoint), _position_of(witness)\n",
        "    ours = (*_position(checkpoint), checkpoint.generation)\n"
        "    theirs = (*_position_of(witness), witness.generation)\n",
        (CORE,),
    ),
    Mutant(
        "the lineage is left out of what tells a rollback",
        (INV.APPLIED_MONOTONE, ROW.COMMIT_BEHIND, ROW.ROLLED_BACK),
        VERDICT_PY,
        "    ours, theirs = _position(checkpoint), _position_of(witness)\n",
        "    ours, theirs = checkpoint.token.next, witness.next\n",
        (CORE,),
    ),
    Mutant(
        "a commit that fell behind is not made again",
        (ROW.COMMIT_BEHIND, ROW.FOREIGN_SAME),
        RECOVERY_PY,
        "if go.commit_again or go.verdict is Verdict.STORE_ROLLED_BACK:",
        "if go.verdict is Verdict.STORE_ROLLED_BACK:",
        (ENGINE, SIMULATED),
    ),
    Mutant(
        "a store that went back is gone on from",
        (INV.APPLIED_MONOTONE, ROW.ROLLED_BACK),
        VERDICT_PY,
        "    if theirs < ours:\n",
        "    if theirs != ours:\n",
        (CORE, SIMULATED),
    ),
    Mutant(
        "a restore takes the generation of the store that went back",
        (INV.CAS_OR_NOTHING, ROW.ROLLED_BACK),
        VERDICT_PY,
        "generation=Generation(max(checkpoint.generation, witness.generation)),",
        "generation=checkpoint.generation,",
        (CORE,),
    ),
    Mutant(
        "without a commit, none is made before the first page",
        (ROW.COMMIT_EXPIRED,),
        RECOVERY_PY,
        "cursor.needs_commit = go.commit_first and not cursor.live",
        "cursor.needs_commit = False",
        (ENGINE, SIMULATED),
    ),
    Mutant(
        "a request to deliver again moves the position back",
        (INV.APPLIED_MONOTONE, ROW.REPLAY_REQUESTED),
        VERDICT_PY,
        "asked = checkpoint if known else replace(checkpoint, replay=Interval(foreign, ours))",
        "asked = replace(checkpoint, replay=Interval(foreign, ours), token=Token(foreign, None))",
        (CORE, SIMULATED),
    ),
    Mutant(
        "a request to deliver again is not written down",
        (ROW.REPLAY_REQUESTED,),
        VERDICT_PY,
        "asked = checkpoint if known else replace(checkpoint, replay=Interval(foreign, ours))",
        "asked = checkpoint",
        (CORE,),
    ),
    Mutant(
        "a foreign commit at the same offset is a reset",
        (ROW.FOREIGN_SAME,),
        VERDICT_PY,
        "    if foreign == ours:\n        return _range(",
        "    if foreign == ours - 1:\n        return _range(",
        (CORE,),
    ),
    Mutant(
        "a foreign commit ahead is written over",
        (ROW.EXTERNAL_RESET,),
        VERDICT_PY,
        "    if foreign == ours:\n        return _range(",
        "    if foreign >= ours:\n        return _range(",
        (CORE,),
    ),
    Mutant(
        "a lost checkpoint is not rebuilt from the witness",
        (ROW.STORE_REBUILT,),
        VERDICT_PY,
        "    if witness is not None:\n        forgotten = _forgotten_gap(facts, None, witness)",
        "    if witness is not None and not registry.started:\n"
        "        forgotten = _forgotten_gap(facts, None, witness)",
        (CORE,),
    ),
    Mutant(
        "a rebuilt registry is taken for a first day",
        (INV.PREFIX_TERMINAL, ROW.STORE_LOST),
        VERDICT_PY,
        "    if started or (registry.rebuilt and not _came_later(facts, topic)):\n",
        "    if started:\n",
        (CORE,),
    ),
    Mutant(
        "a partition is delivered from without being marked as started",
        (ROW.STORE_LOST,),
        RECOVERY_PY,
        "if not cursor.live and (cursor.needs_commit or not cursor.started):",
        "if not cursor.live and cursor.needs_commit:",
        (ENGINE, SIMULATED),
    ),
    Mutant(
        "an existing group is adopted although the setting says to ask",
        (ROW.ADOPTED,),
        VERDICT_PY,
        "if facts.policy.adopt is Adopt.HOLD and facts.accepted is not Verdict.ADOPTED:",
        "if facts.policy.adopt is not Adopt.COMMIT and facts.registry is None:",
        (CORE,),
    ),
    Mutant(
        "a partition that came later takes the start rule",
        (ROW.FIRST_DAY,),
        "sidecar/core/enrolment.py",
        "rule = Start.EARLIEST if late else answered.get(partition, policy.start)",
        "rule = answered.get(partition, policy.start)",
        (CORE,),
    ),
    Mutant(
        "commits of ours leave no trace in a new registry",
        (ROW.STORE_LOST, ROW.FIRST_DAY),
        "sidecar/core/enrolment.py",
        "rebuilt=bool(witnesses),",
        "rebuilt=False,",
        (CORE,),
    ),
    # --- stage 4: range ---------------------------------------------------------------------------
    Mutant(
        "the end of the log counts as beyond it",
        (ROW.IN_RANGE, ROW.BEYOND_THE_END),
        VERDICT_PY,
        "    if position > end.high_watermark:\n",
        "    if position >= end.high_watermark:\n",
        (CORE,),
    ),
    Mutant(
        "a log that begins where we stand counts as a loss",
        (ROW.AT_THE_START,),
        VERDICT_PY,
        "    if fetched_to < start:\n",
        "    if fetched_to <= start:\n",
        (CORE,),
    ),
    Mutant(
        "one lost record is overlooked",
        (INV.PREFIX_TERMINAL, ROW.BELOW_THE_START),
        VERDICT_PY,
        "    if fetched_to < start:\n",
        "    if fetched_to < start - 1:\n",
        (CORE, SIMULATED),
    ),
    Mutant(
        "a loss is told from where fetching stood",
        (INV.PREFIX_TERMINAL, ROW.BELOW_THE_START),
        VERDICT_PY,
        "            Interval(position, start),\n",
        "            Interval(fetched_to, start),\n",
        (CORE, SIMULATED),
    ),
    Mutant(
        "a position beyond the end is waited for",
        (ROW.BEYOND_THE_END,),
        VERDICT_PY,
        "    if position > end.high_watermark:\n",
        "    if epoch is None and position > end.high_watermark:\n",
        (CORE,),
    ),
    Mutant(
        "a reported truncation with nothing left to compare is passed over",
        (ROW.TRUNCATION_REPORTED, ROW.NOTHING_COMPARABLE),
        RECOVERY_PY,
        "if result.boundary and cursor.distrusted and",
        "if result.mismatched and cursor.distrusted and",
        (ENGINE, SIMULATED),
    ),
    Mutant(
        "a deposed leader is believed at once",
        (INV.TRANSIENT_CHANGES_NOTHING, ROW.EPOCH_FELL),
        VERDICT_PY,
        "        if not facts.patient:\n",
        "        if facts.patient:\n",
        (CORE,),
    ),
    # --- stage 5: content -------------------------------------------------------------------------
    Mutant(
        "the overlap is read and not compared",
        (INV.TOKEN_IS_NO_PROOF, ROW.MISMATCH),
        OVERLAP_PY,
        "elif known is not None and seen == known:",
        "elif known is not None and seen is not None:",
        (CORE, SIMULATED),
    ),
    Mutant(
        "a remembered record that does not appear counts as a match",
        (INV.TOKEN_IS_NO_PROOF, ROW.INCONCLUSIVE),
        OVERLAP_PY,
        "elif known is not None and seen == known:",
        "elif offset not in unexpected and seen in (None, self.expected[offset]):",
        (CORE, SIMULATED),
    ),
    Mutant(
        "every topic is taken for a compacted one",
        (INV.TOKEN_IS_NO_PROOF, ROW.INCONCLUSIVE),
        RECOVERY_PY,
        "result = read.conclude(floor=floor, compacted=go.compacted)",
        "result = read.conclude(floor=floor, compacted=None)",
        (ENGINE, SIMULATED),
    ),
    Mutant(
        "what retention took meanwhile is compared",
        (INV.TRANSIENT_CHANGES_NOTHING, ROW.NOTHING_COMPARABLE),
        OVERLAP_PY,
        "            if offset < floor or offset < self.anchor or",
        "            if offset < self.anchor or",
        (CORE,),
    ),
    Mutant(
        "a record where none is remembered is passed over",
        (ROW.MISMATCH,),
        OVERLAP_PY,
        "self.unexpected.append(Offset(offset))",
        "self.seen[Offset(offset)] = Digest(digest)",
        (CORE, SIMULATED),
    ),
    Mutant(
        "an anchor that differs is not looked behind",
        (ROW.ANCHOR_DIFFERS,),
        RECOVERY_PY,
        "if result.diverged and result.last_matching is None and not cursor.widened:",
        "if result.diverged and result.last_matching is None and cursor.widened:",
        (ENGINE, SIMULATED),
    ),
    Mutant(
        "a receipt ahead lets other bytes be skipped",
        (INV.PREFIX_TERMINAL, ROW.AHEAD),
        DELIVERY_PY,
        "if known.digest != digests[i]:",
        "if known.offset != offset:",
        (ENGINE, SIMULATED),
    ),
    Mutant(
        "a hole is covered by a floor asked before it was read",
        (INV.TOKEN_IS_NO_PROOF, ROW.HOLE),
        HAND_PY,
        "while self.unproven and self.unproven[0][0] <= reads:",
        "while self.unproven:",
        (ENGINE, SIMULATED),
    ),
    Mutant(
        "a hole whose first offset the floor passed is covered",
        (INV.PREFIX_TERMINAL, ROW.HOLE),
        HAND_PY,
        "lost = next((first for first, _ in holes if first < floor), None)",
        "lost = next((first for first, _ in holes if first + 1 < floor), None)",
        (ENGINE, SIMULATED),
    ),
    Mutant(
        "the end of an empty fetch is taken for proof",
        (INV.TOKEN_IS_NO_PROOF, ROW.HOLE),
        HAND_PY,
        "            if self.position < floor:\n                return covered, self.position\n",
        "",
        (ENGINE, SIMULATED),
    ),
    Mutant(
        "a hole right behind a pause is taken for a hole of the log",
        (INV.PREFIX_TERMINAL, ROW.HOLE),
        HAND_PY,
        "if self.disturbed and offsets[0] != self.position and self.position != self.began:",
        "if self.disturbed and offsets[0] < self.position and self.position != self.began:",
        (ENGINE,),
    ),
    Mutant(
        "what lies behind a record that cannot be read is read on",
        (INV.PREFIX_TERMINAL, ROW.BLOCKED),
        RECOVERY_PY,
        "if event.blocked_at is not None and cursor.phase in READ_SO_FAR:",
        "if event.blocked_at is not None and event.truncation and cursor.phase in READ_SO_FAR:",
        (ENGINE, SIMULATED),
    ),
    Mutant(
        "a leader that changed is trusted with what is in hand",
        (INV.TOKEN_IS_NO_PROOF, ROW.MISMATCH),
        RECOVERY_PY,
        "                self.context.look(cursor, Cue.LEADER_CHANGED)",
        "                pass",
        (ENGINE, SIMULATED),
    ),
    # --- promotion and commit ---------------------------------------------------------------------
    Mutant(
        "a page is promoted with one record open",
        (INV.PREFIX_TERMINAL,),
        HAND_PY,
        "            return self.outcomes.index(None, self.done)\n",
        "            return self.outcomes.index(None, self.done) + 1\n",
        (ENGINE, SIMULATED),
    ),
    Mutant(
        "a promotion covers all that is in hand",
        (INV.PREFIX_TERMINAL,),
        DELIVERY_PY,
        "next_ = hand.frontier if head == len(page.offsets) else",
        "next_ = hand.position if head == len(page.offsets) else",
        (ENGINE, SIMULATED),
    ),
    Mutant(
        "a record to be retried counts as done",
        (INV.PREFIX_TERMINAL,),
        HAND_PY,
        "            if outcome is Outcome.RETRY:\n                self.retried.add(offset)\n"
        "            elif outcomes[i] is None:\n",
        "            if outcomes[i] is None:\n",
        (ENGINE, SIMULATED),
    ),
    Mutant(
        "a commit goes out before its promotion is acknowledged",
        (INV.COMMIT_BEHIND_CHECKPOINT,),
        WRITES_PY,
        "        cursor.purpose = purpose\n",
        "        cursor.purpose, cursor.checkpoint = purpose, checkpoint\n",
        (ENGINE, SIMULATED),
    ),
    Mutant(
        "a commit covers what was promoted after its topic was asked for",
        (INV.INCARNATION_PINNED,),
        COMMITS_PY,
        "            partition: request\n"
        "            for partition, request in commit.offsets.items()\n"
        "            if partition in self.context.cursors and",
        "            partition: cursor.commit_request(self.context.policy)\n"
        "            for partition in commit.offsets\n"
        "            if (cursor := self.context.cursors.get(partition)) is not None and",
        (ENGINE, SIMULATED),
    ),
    Mutant(
        "a commit is confirmed by any topic ID",
        (INV.INCARNATION_PINNED, ROW.RECREATED),
        COMMITS_PY,
        "                if topic.topic_id == pinned:\n",
        "                if topic.topic_id is not None:\n",
        (ENGINE, SIMULATED),
    ),
    Mutant(
        "a commit that is refused shows nowhere",
        (INV.TRANSIENT_CHANGES_NOTHING,),
        COMMITS_PY,
        "fault.kind in (FaultKind.AUTHORIZATION, FaultKind.REFUSED),",
        "False,",
        (ENGINE, SIMULATED),
    ),
    # --- the store's comparison -------------------------------------------------------------------
    Mutant(
        "the script does not compare the owner",
        (INV.CAS_OR_NOTHING, INV.ZOMBIE_WRITES_NOTHING),
        INSTALL_LUA,
        " or kept[5] ~= ARGV[5] then",
        " then",
        (STORE, SCRIPTS),
    ),
    Mutant(
        "the script does not compare the generation",
        (INV.CAS_OR_NOTHING, INV.ZOMBIE_WRITES_NOTHING),
        INSTALL_LUA,
        "elseif kept[4] ~= ARGV[4] or kept[2]",
        "elseif kept[2]",
        (STORE, SCRIPTS),
    ),
    Mutant(
        "the script does not compare the token",
        (INV.CAS_OR_NOTHING,),
        INSTALL_LUA,
        "or kept[2] ~= ARGV[2] or kept[3] ~= ARGV[3] or",
        "or",
        (STORE, SCRIPTS),
    ),
    Mutant(
        "the script does not remember its attempts",
        (INV.CAS_OR_NOTHING, INV.TRANSIENT_CHANGES_NOTHING),
        INSTALL_LUA,
        "if call('RPUSH', history, entry) > HISTORY_MAX + HISTORY_SLACK then",
        "if #entry > 100000 then",
        (STORE, SCRIPTS),
    ),
    Mutant(
        "a write that is sent again goes by another name",
        (INV.TRANSIENT_CHANGES_NOTHING,),
        WRITES_PY,
        "                self.context.do("
        "m.PerformInstall(event.install, cursor.install_retry_seconds))",
        "                again = AttemptId(self.context.new_name('attempt'))\n"
        "                kept = {n: getattr(event.install, n) for n in Install.__slots__}\n"
        "                cursor.install = Install(**(kept | {'attempt': again}))\n"
        "                self.context.do(\n"
        "                    m.PerformInstall(cursor.install, cursor.install_retry_seconds)\n"
        "                )",
        (ENGINE, SIMULATED),
    ),
    Mutant(
        "the loser of a comparison takes its own successor for what stands",
        (INV.CAS_OR_NOTHING,),
        WRITES_PY,
        "                self.install_lost(cursor, purpose, winner)\n",
        "                self.installed(cursor, purpose, event.install)\n",
        (ENGINE, SIMULATED),
    ),
    Mutant(
        "a write does not raise the generation",
        (INV.CAS_OR_NOTHING,),
        "sidecar/core/checkpoint.py",
        "generation=Generation(self.generation + 1), **changes",
        "generation=Generation(self.generation), **changes",
        (CORE, ENGINE, SIMULATED),
    ),
    # --- gaps -------------------------------------------------------------------------------------
    Mutant(
        "a gap is forgotten once all looks well",
        (INV.GAP_OUTLIVES, INV.GAP_HOLDS),
        VERDICT_PY,
        "            return Stand(gap, stored.checkpoint, grown_to=end)\n"
        "    return Stand(gap, stored.checkpoint)\n",
        "            return Stand(gap, stored.checkpoint, grown_to=end)\n    return judgement\n",
        (CORE, SIMULATED),
    ),
    Mutant(
        "an acknowledged gap holds nothing",
        (INV.GAP_HOLDS,),
        "sidecar/core/gap.py",
        "return self in (GapState.OPEN, GapState.ACKNOWLEDGED)",
        "return self is GapState.OPEN",
        (CORE, SIMULATED),
    ),
    Mutant(
        "one gap stops what is offered of every partition",
        (INV.GAP_HOLDS,),
        DELIVERY_PY,
        "        if self.context.store_refused is not None:\n            return\n",
        "        if any(c.phase is Phase.GAP for c in self.context.cursors.values()):\n"
        "            return\n",
        (ENGINE, SIMULATED),
    ),
    Mutant(
        "a gap shrinks when the log start is told lower",
        (INV.GAP_OUTLIVES,),
        VERDICT_PY,
        "            and (gap.interval.end is None or end > gap.interval.end)\n",
        "            and (gap.interval.end is None or end != gap.interval.end)\n",
        (CORE,),
    ),
    Mutant(
        "lesser evidence supersedes a graver gap",
        (INV.GAP_OUTLIVES, ROW.RECREATED),
        "sidecar/core/gap.py",
        "return _GRAVITY[candidate] > _GRAVITY[standing]",
        "return _GRAVITY[candidate] != _GRAVITY[standing]",
        (CORE,),
    ),
    Mutant(
        "an acknowledgement is written over by another addition",
        (INV.GAP_OUTLIVES,),
        UPDATE_GAP_LUA,
        "if (both[2] or '') ~= ARGV[7] then return CHANGED end\n",
        "",
        (STORE, f"{INFLICTED}::test_two_hands_on_one_gap"),
    ),
    Mutant(
        "the witness does not carry the open gap",
        (INV.GAP_OUTLIVES, ROW.STORE_REBUILT),
        CURSOR_PY,
        "tail=tail, gap=gap)",
        "tail=tail, gap=None)",
        (ENGINE, SIMULATED),
    ),
    Mutant(
        "a gap that only the witness names is left behind",
        (INV.GAP_OUTLIVES, ROW.STORE_REBUILT),
        VERDICT_PY,
        "    if forgotten is not None:\n        return forgotten\n    if ours == theirs:",
        "    if forgotten is not None and ours == theirs:\n        return forgotten\n"
        "    if ours == theirs:",
        (CORE, SIMULATED),
    ),
    Mutant(
        "a fence taken before the gap opened settles it",
        (INV.GAP_HOLDS,),
        RESOLUTION_PY,
        "if not any(fence == taken and at >= gap.opened_at for taken, at in gap.fences):",
        "if not any(fence == taken for taken, _ in gap.fences):",
        (CORE,),
    ),
    Mutant(
        "a resolution goes back in the same lineage",
        (INV.APPLIED_MONOTONE,),
        RESOLUTION_PY,
        "    if at < next_ and not goes_back:\n",
        "    if at < next_ and goes_back:\n",
        (CORE, SIMULATED),
    ),
    Mutant(
        "a resolution decides whichever gap is open",
        (INV.GAP_OUTLIVES,),
        RESOLUTION_PY,
        "or gap.id != gap_id or not gap.state.holds:",
        "or not gap.state.holds:",
        (CORE,),
    ),
    # --- redelivery -------------------------------------------------------------------------------
    Mutant(
        "records are handed out beyond the horizon",
        (INV.REDELIVERY_FLAGGED,),
        DELIVERY_PY,
        "below=checkpoint.horizon\n                if checkpoint.replaying is None",
        "below=Offset(2**62)\n                if checkpoint.replaying is None",
        (ENGINE, SIMULATED),
    ),
    Mutant(
        "a page that is offered again is not flagged",
        (INV.REDELIVERY_FLAGGED,),
        CURSOR_PY,
        "            if again or self.phase is Phase.REPLAYING\n",
        "            if self.phase is Phase.REPLAYING\n",
        (ENGINE, SIMULATED),
    ),
    Mutant(
        "after a claim nothing is flagged",
        (INV.REDELIVERY_FLAGGED,),
        RECOVERY_PY,
        "cursor.redelivered_below = Offset(max(reached, cursor.handed_to))",
        "cursor.redelivered_below = Offset(max(base.token.next, cursor.handed_to))",
        (ENGINE, SIMULATED),
    ),
    Mutant(
        "another life of the store is trusted with the horizon",
        (INV.REDELIVERY_FLAGGED, ROW.ROLLED_BACK),
        VERDICT_PY,
        "if facts.checkpoint is not None and facts.checkpoint.store_epoch != life:",
        "if facts.checkpoint is not None and not facts.checkpoint.store and life:",
        (CORE, SIMULATED),
    ),
    Mutant(
        "a clean end forgets what was handed out",
        (INV.REDELIVERY_FLAGGED,),
        MEMBERSHIP_PY,
        "reached = max(checkpoint.token.next, cursor.handed_to, cursor.redelivered_below)",
        "reached = checkpoint.token.next",
        (ENGINE, SIMULATED),
    ),
    Mutant(
        "new bytes get the idempotency keys of the old ones",
        (INV.REDELIVERY_FLAGGED,),
        RESOLUTION_PY,
        "    line = Lineage(checkpoint.lineage.number + 1, at)\n",
        "    line = Lineage(checkpoint.lineage.number, at)\n",
        (CORE, SIMULATED),
    ),
    # --- owners and zombies -----------------------------------------------------------------------
    Mutant(
        "pages are handed out however long ago the owner mark was seen",
        (INV.ZOMBIE_WRITES_NOTHING, INV.REDELIVERY_FLAGGED),
        DELIVERY_PY,
        "if now - cursor.owner_seen_at >= self.context.policy.session_timeout_seconds / 2:",
        "if now < cursor.owner_seen_at:",
        (ENGINE, SIMULATED),
    ),
    Mutant(
        "another's owner mark is taken for ours",
        (INV.ZOMBIE_WRITES_NOTHING,),
        MEMBERSHIP_PY,
        "reading.value.owner == cursor.owner and not forgot:",
        "reading.value.owner and not forgot:",
        (ENGINE, SIMULATED),
    ),
    Mutant(
        "a claim keeps the mark of the owner before",
        (INV.ZOMBIE_WRITES_NOTHING,),
        RECOVERY_PY,
        "            owner=cursor.owner,\n            horizon=",
        "            horizon=",
        (ENGINE, SIMULATED),
    ),
    Mutant(
        "a partition that is given back goes on",
        (INV.ZOMBIE_WRITES_NOTHING,),
        MEMBERSHIP_PY,
        "            cursor.revoking = True\n",
        "            cursor.revoking = False\n",
        (ENGINE, SIMULATED),
    ),
    Mutant(
        "pages of an attempt that is over can be promoted",
        (INV.ZOMBIE_WRITES_NOTHING, INV.REDELIVERY_FLAGGED),
        CONTEXT_PY,
        "        cursor.hand = None\n",
        "",
        (ENGINE, SIMULATED),
    ),
    # --- the witness's own ------------------------------------------------------------------------
    Mutant(
        "the checksum of a witness is not checked",
        (ROW.EXTERNAL_RESET,),
        "sidecar/core/witness.py",
        'if checksum != f"{zlib.crc32(body.encode()):08x}":',
        "if not checksum:",
        (CORE,),
    ),
    Mutant(
        "a witness beside another offset is ours",
        (INV.COMMIT_BEHIND_CHECKPOINT, ROW.EXTERNAL_RESET, ROW.REPLAY_REQUESTED),
        "sidecar/core/witness.py",
        "    if witness.next != committed:\n",
        "    if witness.next < 0:\n",
        (CORE,),
    ),
    # --- limits -----------------------------------------------------------------------------------
    Mutant(
        "requests for pages are parked without end",
        (INV.BOUNDED,),
        DELIVERY_PY,
        "if len(self._parked) >= PARKED_MAX:",
        "if len(self._parked) < 0:",
        (ENGINE,),
    ),
    Mutant(
        "receipts are never trimmed",
        (INV.BOUNDED,),
        INSTALL_LUA,
        "    if count <= most then break end\n",
        "    if count <= most or true then break end\n",
        (STORE, SCRIPTS),
    ),
    Mutant(
        "receipts are trimmed below what an overlap needs",
        (INV.BOUNDED, ROW.NOTHING_COMPARABLE),
        INSTALL_LUA,
        "    if rest < least then break end\n",
        "",
        (STORE, SCRIPTS),
    ),
    Mutant(
        "the fetcher is never held back",
        (INV.BOUNDED,),
        READING_PY,
        "full = hand.records >= high or hand.bytes >= high_bytes",
        "full = False",
        (ENGINE,),
    ),
    Mutant(
        "a witness grows beyond what the broker takes",
        (INV.BOUNDED,),
        "sidecar/core/witness.py",
        "if len(text) <= METADATA_CHARACTERS_MAX or not tail:",
        "if len(text) <= 2 * METADATA_CHARACTERS_MAX or not tail:",
        (CORE,),
    ),
    # --- what people ask --------------------------------------------------------------------------
    Mutant(
        "a request that was answered is executed again when an older reading shows it pending",
        (SAID.ANSWERED_ONCE,),
        REQUESTS_PY,
        "if one.pending and cursor.answered.get(one.id, -math.inf) < asked_at",
        "if one.pending",
        (*ASKED, ENGINE, SIMULATED),
    ),
    Mutant(
        "the answer is not written with the change",
        (SAID.ANSWERED_ONCE,),
        REQUESTS_PY,
        "            gaps=gaps,\n            history_ends=ends,\n            requests=done,\n",
        "            gaps=gaps,\n            history_ends=ends,\n",
        (*ASKED, ENGINE, SIMULATED),
    ),
    Mutant(
        "the script leaves the answer out of the change",
        (SAID.ANSWERED_ONCE,),
        INSTALL_LUA,
        "  call('HSET', requests, ARGV[i], ARGV[i + 1])\n",
        "",
        (STORE, SCRIPTS),
    ),
    Mutant(
        "a second answer replaces the first",
        (SAID.ANSWERED_ONCE,),
        ANSWER_LUA,
        "if request.state ~= 'pending' then return {STANDS, stands} end\n",
        "",
        (STORE,),
    ),
    Mutant(
        "a request is answered by one who is not the owner",
        (SAID.ANSWERED_ONCE, INV.ZOMBIE_WRITES_NOTHING),
        ANSWER_LUA,
        "if owner ~= ARGV[4] then return {LOST} end\n",
        "",
        (STORE,),
    ),
    Mutant(
        "a request is executed while the write of another is on its way",
        (SAID.ANSWERED_ONCE,),
        REQUESTS_PY,
        "            or cursor.install is not None\n            or cursor.resolving is not None\n",
        "            or cursor.resolving is not None\n",
        (*ASKED, ENGINE, SIMULATED),
    ),
    Mutant(
        "one that has lost the partition goes on to answer what was asked",
        (SAID.ANSWERED_ONCE, INV.ZOMBIE_WRITES_NOTHING),
        REQUESTS_PY,
        "            cursor.revoking\n            or self.context.draining\n",
        "            self.context.draining\n",
        (*ASKED, ENGINE, SIMULATED),
    ),
    Mutant(
        "what pends once more in a store that went back is never answered",
        (SAID.HEARD,),
        REQUESTS_PY,
        "        cursor.answered.clear()\n        cursor.heard = None\n",
        "",
        (*ASKED, ENGINE, SIMULATED),
    ),
    Mutant(
        "the owner is not told that a request was left",
        (SAID.HEARD,),
        LEAVE_LUA,
        "if call('EXISTS', checkpoint) == 1 then call('HINCRBY', checkpoint, 'requests', 1) end\n",
        "",
        (STORE,),
    ),
    Mutant(
        "requests are left without end",
        (INV.BOUNDED,),
        LEAVE_LUA,
        "if pending >= tonumber(ARGV[4]) then return {FULL} end\n",
        "",
        (STORE,),
    ),
    Mutant(
        "requests of all kinds wait in one line",
        (SAID.HEARD,),
        LEAVE_LUA,
        "elseif not read or request.kind == nil or request.kind == kind then",
        "else",
        (STORE,),
    ),
    Mutant(
        "a hold's answer is taken for another situation",
        (SAID.FOR_ITS_SITUATION,),
        REQUESTS_PY,
        "view = next((v for v in cursor.hold_views() if v.id == request.target), None)",
        "view = next(iter(cursor.hold_views()), None)",
        (*ASKED, ENGINE, SIMULATED),
    ),
    Mutant(
        "an answer lets pass whatever is held by the time it is executed",
        (SAID.FOR_ITS_SITUATION,),
        REQUESTS_PY,
        "return judged.verdict if found == cursor.answering.target else None",
        "return judged.verdict if found else None",
        (*ASKED, ENGINE, SIMULATED),
    ),
    Mutant(
        "two situations of one kind have the same name",
        (SAID.FOR_ITS_SITUATION,),
        "sidecar/core/holds.py",
        "str(partition.index), held.value, situation))",
        "str(partition.index), held.value))",
        (f"{CORE}/test_holds.py", *ASKED),
    ),
    Mutant(
        "an answer to one partition's start counts for all",
        (SAID.FOR_ITS_SITUATION, ROW.FIRST_DAY),
        "sidecar/core/enrolment.py",
        "answered.get(partition, policy.start)",
        "next(iter(answered.values()), policy.start)",
        (f"{CORE}/test_enrolment.py", *ASKED),
    ),
    Mutant(
        "a resolution that was asked for one gap decides the next",
        (SAID.FOR_ITS_SITUATION, INV.GAP_OUTLIVES),
        REQUESTS_PY,
        "cursor.phase is not Phase.GAP or cursor.gap is None or cursor.gap.id != request.target:",
        "cursor.phase is not Phase.GAP or cursor.gap is None:",
        (*ASKED, ENGINE, SIMULATED),
    ),
    # --- pause, skip, replay ----------------------------------------------------------------------
    Mutant(
        "a paused partition offers",
        (SAID.PAUSED,),
        DELIVERY_PY,
        "if cursor.checkpoint is None or cursor.checkpoint.paused is not None:",
        "if cursor.checkpoint is None:",
        (*ASKED, ENGINE, SIMULATED),
    ),
    Mutant(
        "a pause that was left while nobody ran waits for the first page",
        (SAID.PAUSED,),
        REQUESTS_PY,
        "            if request.kind in FLAGS and in_turn:\n",
        "            if request.kind in FLAGS and in_turn and cursor.live:\n",
        (*ASKED, ENGINE, SIMULATED),
    ),
    Mutant(
        "a store that went back forgets that it is paused",
        (SAID.PAUSED, ROW.ROLLED_BACK),
        VERDICT_PY,
        "        replay=checkpoint.replay,\n        paused=checkpoint.paused,\n",
        "        replay=checkpoint.replay,\n        paused=None,\n",
        (f"{CORE}/test_verdict.py", SIMULATED),
    ),
    Mutant(
        "a record that is not the head is skipped",
        (SAID.SKIPS_THE_HEAD, INV.PREFIX_TERMINAL),
        REQUESTS_PY,
        "        elif head == at:\n",
        "        elif head is not None:\n",
        (*ASKED, ENGINE, SIMULATED),
    ),
    Mutant(
        "any skip passes the record that cannot be read",
        (SAID.SKIPS_THE_HEAD, ROW.BLOCKED),
        REQUESTS_PY,
        "            if at == cursor.blocked_at:\n",
        "            if cursor.blocked_at is not None:\n",
        (*ASKED, ENGINE, SIMULATED),
    ),
    Mutant(
        "a record that cannot be read is passed and leaves no gap",
        (SAID.SKIPS_THE_HEAD, INV.PREFIX_TERMINAL, ROW.BLOCKED),
        REQUESTS_PY,
        "self.write(cursor, moved, done, gaps=(passed,), receipts=unread)",
        "self.write(cursor, moved, done, receipts=unread)",
        (*ASKED, ENGINE, SIMULATED),
    ),
    Mutant(
        "a record that is skipped counts as applied",
        (SAID.SKIPS_THE_HEAD,),
        DELIVERY_PY,
        "page.outcomes[page.head()] = Outcome.DROPPED",
        "page.outcomes[page.head()] = Outcome.APPLIED",
        (*ASKED, ENGINE, SIMULATED),
    ),
    Mutant(
        "a replay moves the position",
        (SAID.REPLAY_MOVES_NOTHING, INV.APPLIED_MONOTONE),
        REPLAYS_PY,
        "            cursor, checkpoint.succeed(replaying=replace(replaying, position=at))\n",
        "            cursor,\n"
        "            checkpoint.succeed(\n"
        "                replaying=replace(replaying, position=at),\n"
        "                token=replace(checkpoint.token, next=at),\n"
        "            ),\n",
        (*ASKED, ENGINE, SIMULATED),
    ),
    Mutant(
        "what is delivered again is not flagged",
        (INV.REDELIVERY_FLAGGED, SAID.REPLAY_MOVES_NOTHING),
        CURSOR_PY,
        "            if again or self.phase is Phase.REPLAYING\n",
        "            if again\n",
        (*ASKED, ENGINE, SIMULATED),
    ),
    Mutant(
        "new records come before those that were asked for again",
        (SAID.REPLAY_MOVES_NOTHING,),
        DELIVERY_PY,
        "return bool(hand.ready) and not replay_pends(cursor)",
        "return bool(hand.ready)",
        (*ASKED, ENGINE, SIMULATED),
    ),
    Mutant(
        "a replay begins anew with each owner",
        (SAID.REPLAY_MOVES_NOTHING,),
        REPLAYS_PY,
        "        at = replaying.position\n",
        "        at = replaying.first\n",
        (*ASKED, ENGINE, SIMULATED),
    ),
    Mutant(
        "a replay is done although the log lost a part of it",
        (SAID.REPLAY_MOVES_NOTHING, INV.TOKEN_IS_NO_PROOF),
        REPLAYS_PY,
        "gone = replaying.gone + at - replaying.position",
        "gone = replaying.gone",
        (*ASKED, ENGINE, SIMULATED),
    ),
    Mutant(
        "what was never applied is delivered again",
        (SAID.REPLAY_MOVES_NOTHING,),
        REPLAYS_PY,
        "        if end > next_:\n",
        "        if end > next_ + 1:\n",
        (*ASKED, ENGINE, SIMULATED),
    ),
    # --- forecast and conditions ------------------------------------------------------------------
    Mutant(
        "the loss is told later than the first unread record's",
        (SAID.EARLY_FORECAST,),
        FORECAST_PY,
        "        and stamp.offset <= unread\n",
        "",
        (f"{CORE}/test_forecast.py",),
    ),
    Mutant(
        "of two limits the farther one is told",
        (SAID.EARLY_FORECAST,),
        FORECAST_PY,
        "return min(bounds, default=None)",
        "return max(bounds, default=None)",
        (f"{CORE}/test_forecast.py",),
    ),
    Mutant(
        "the log start is expected to move no quicker than it did at its slowest",
        (SAID.EARLY_FORECAST,),
        FORECAST_PY,
        "pause = min(seconds for _, seconds in self.steps)",
        "pause = max(seconds for _, seconds in self.steps)",
        (f"{CORE}/test_forecast.py",),
    ),
    Mutant(
        "the log start is expected to move in its smallest steps",
        (SAID.EARLY_FORECAST,),
        FORECAST_PY,
        "largest = max(size for size, _ in self.steps)",
        "largest = min(size for size, _ in self.steps)",
        (f"{CORE}/test_forecast.py",),
    ),
    Mutant(
        "a topic whose settings cannot be read any more keeps its forecast",
        (SAID.EARLY_FORECAST,),
        "sidecar/engine/forecasts.py",
        "cursor.retention = None  # a right",
        "pass  # a right",
        (f"{ENGINE}/test_forecasts.py",),
    ),
    Mutant(
        "a hanging transaction is skipped",
        (SAID.HOLDS_NOTHING, INV.PREFIX_TERMINAL),
        CONDITIONS_PY,
        "        self.context.condition(\n"
        "            cursor,\n"
        "            Condition.HANGING_TRANSACTION,\n",
        "        if hangs and cursor.hand is not None:\n"
        "            cursor.hand.reached(end.high_watermark)\n"
        "        self.context.condition(\n"
        "            cursor,\n"
        "            Condition.HANGING_TRANSACTION,\n",
        (f"{ENGINE}/test_conditions.py",),
    ),
    Mutant(
        "a transaction counts as hanging however short ago it began",
        (SAID.HOLDS_NOTHING, INV.TRANSIENT_CHANGES_NOTHING),
        CONDITIONS_PY,
        "hangs = since is not None and asked_at - since[1] >= patience",
        "hangs = since is not None",
        (f"{ENGINE}/test_conditions.py",),
    ),
    Mutant(
        "what an open transaction holds back counts as readable",
        (SAID.HOLDS_NOTHING, INV.TOKEN_IS_NO_PROOF),
        "sidecar/core/evidence.py",
        "return self.last_stable",
        "return self.high_watermark",
        (f"{ENGINE}/test_conditions.py", CORE),
    ),
    # --- foreign commits while a member runs ------------------------------------------------------
    Mutant(
        "a foreign commit is replaced unrecorded",
        (SAID.RECORDED_FIRST, ROW.REPLAY_REQUESTED),
        CURSOR_PY,
        "if self.checkpoint is None or self.revoking or self.asked_replay is not None:",
        "if self.checkpoint is None or self.revoking:",
        (f"{ENGINE}/test_foreign_commits.py", *ASKED, SIMULATED),
    ),
    Mutant(
        "whoever gives a partition back replaces a foreign commit unrecorded",
        (SAID.RECORDED_FIRST, ROW.REPLAY_REQUESTED),
        MEMBERSHIP_PY,
        "if c.phase in _LIVE and c.committed != c.next and c.asked_replay is None",
        "if c.phase in _LIVE and c.committed != c.next",
        (f"{ENGINE}/test_foreign_commits.py", *ASKED, SIMULATED),
    ),
    Mutant(
        "a foreign commit while a member runs is never seen",
        (SAID.RECORDED_FIRST, ROW.EXTERNAL_RESET),
        COMMITS_PY,
        "                        self.context.look(cursor, Cue.COMMIT_DIFFERED)\n",
        "                        self.dirty.add(partition)\n",
        (f"{ENGINE}/test_foreign_commits.py", *ASKED, SIMULATED),
    ),
    # --- what is judged twice, and who is told ----------------------------------------------------
    Mutant(
        "the end that a new leader names first is believed",
        (INV.TRANSIENT_CHANGES_NOTHING, ROW.BEYOND_THE_END),
        RECOVERY_PY,
        "return heard != cursor.short_end",
        "return False",
        (f"{ENGINE}/test_truncation.py", SIMULATED),
    ),
    Mutant(
        "a partition that a rebuilt registry saw come counts as lost",
        (ROW.STORE_LOST, ROW.FIRST_DAY),
        VERDICT_PY,
        "(registry.rebuilt and not _came_later(facts, topic))",
        "registry.rebuilt",
        (f"{CORE}/test_verdict.py",),
    ),
    Mutant(
        "a store that went back under its owner goes unnoticed",
        (INV.APPLIED_MONOTONE, ROW.ROLLED_BACK),
        MEMBERSHIP_PY,
        "and reading.value.generation < cursor.checkpoint.generation",
        "and reading.value.generation < 0",
        (ENGINE, SIMULATED),
    ),
    Mutant(
        "a write that the store refuses for want of a right shows nowhere",
        (ROW.UNAUTHORIZED, INV.TRANSIENT_CHANGES_NOTHING),
        CONTEXT_PY,
        "        cursor.denied = fault\n",
        "        cursor.denied = None\n",
        (f"{ENGINE}/test_rights.py", ENGINE),
    ),
    Mutant(
        "a gap that was decided is opened again by an older witness",
        (INV.APPLIED_MONOTONE, INV.GAP_OUTLIVES, ROW.COMMIT_BEHIND),
        VERDICT_PY,
        "    if checkpoint is not None and _position(checkpoint) > _position_of(witness):\n",
        "    if checkpoint is not None and _position(checkpoint) < _position_of(witness):\n",
        (f"{CORE}/test_verdict.py", ENGINE, SIMULATED),
    ),
)
