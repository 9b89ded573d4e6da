"""What a library does to the scheduling of threads is undone."""

import os
import threading

import pytest

from act_policy.system.scheduling import keep_scheduling

pytestmark = pytest.mark.skipif(not hasattr(os, "SCHED_BATCH"), reason="Linux schedules so")


def test_the_callers_thread_and_new_ones_get_their_scheduling_back() -> None:
    usual = os.sched_getscheduler(0)
    assert usual != os.SCHED_BATCH
    end = threading.Event()
    with keep_scheduling():
        os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))
        thread = threading.Thread(target=end.wait)
        thread.start()
        assert thread.native_id is not None
        assert os.sched_getscheduler(thread.native_id) == os.SCHED_BATCH
    try:
        assert os.sched_getscheduler(0) == os.sched_getscheduler(thread.native_id) == usual
    finally:
        end.set()
        thread.join()


def test_what_was_chosen_before_stays() -> None:
    usual = os.sched_getscheduler(0)
    os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))
    try:
        with keep_scheduling():
            pass
        assert os.sched_getscheduler(0) == os.SCHED_BATCH
    finally:
        os.sched_setscheduler(0, usual, os.sched_param(0))
