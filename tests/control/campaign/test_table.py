"""Every row of "What stops the arm" in docs/robot.md has a test of the campaign."""

import importlib

import pytest

from tests.paths import ROOT

TABLE = {
    "a command outside range, speed or step": [
        "test_limits_kept.test_what_the_owner_does_not_allow_is_cut_and_counted"
    ],
    "the operator: key, pedal, signal, hook": [
        "test_arm_faults.test_a_stop_rests_and_the_key_to_park_parks",
        "test_robot_faults.test_a_camera_the_driver_and_the_operator",
    ],
    "an action that is not finite, or older than `max_action_age`": [
        "test_policy_faults.test_it_predicts_no_number_does_not_answer_and_dies",
        "test_policy_faults.test_nothing_older_than_the_age_allowed_moves_the_arm",
    ],
    "the policy failed, or its process died": [
        "test_policy_faults.test_it_predicts_no_number_does_not_answer_and_dies"
    ],
    "the policy does not answer": [
        "test_policy_faults.test_it_predicts_no_number_does_not_answer_and_dies"
    ],
    "the policy has no action for the moment, its chunks come too late": [
        "test_policy_faults.test_it_has_no_action_for_too_long",
        "test_policy_faults.test_after_a_short_rest_it_goes_on_without_a_jump_and_many_add_up",
    ],
    "the loop looks at the robot more slowly than asked (`slowest_rate`)": [
        "test_time.test_a_loop_that_slows_down_is_held_and_recorded_as_long_as_it_was",
        "test_start.test_a_run_is_refused_for_its_pose_its_light_and_its_pace",
    ],
    "a camera's image is black": [
        "test_robot_faults.test_a_camera_the_driver_and_the_operator",
        "test_start.test_a_run_is_refused",
    ],
    "a camera's image is frozen": ["test_robot_faults.test_cameras_that_stop_or_change"],
    "a camera sends too few new images (`slowest_camera`), however often it is read": [
        "test_time.test_run_holds_when_images_grow_old",
        "test_time.test_check_refuses_old_images_and_other_clocks",
    ],
    "images taken too long ago (`max_image_age`), in the future, or by another clock": [
        "test_time.test_run_holds_when_images_grow_old",
        "test_time.test_check_refuses_old_images_and_other_clocks",
        "test_robot_faults.test_one_camera_that_is_older_than_the_other",
    ],
    "a camera's image is unusually bright or dark": [
        "test_robot_faults.test_light_and_exchanged_cameras",
        "test_start.test_a_run_is_refused_for_its_pose_its_light_and_its_pace",
    ],
    "two cameras, or red and blue of one, are exchanged, as far as the demonstrations' images "
    "tell": [
        "test_robot_faults.test_light_and_exchanged_cameras",
        "test_start.test_a_run_is_refused",
    ],
    "a camera or joint is missing, renamed, of another size or type": [
        "test_robot_faults.test_cameras_that_stop_or_change",
        "test_start.test_a_run_is_refused",
    ],
    "a measured joint leaps further than it can have moved": [
        "test_arm_faults.test_an_encoder_that_leaps_by_57_degrees_holds_the_arm",
        "test_arm_faults.test_an_encoder_that_leaps_in_the_soft_start",
    ],
    "a joint does not follow: stalled, without torque, or its measurement frozen": [
        "test_arm_faults.test_an_arm_that_does_not_follow"
    ],
    "the policy asks for a place far outside the demonstrations": [
        "test_policy_faults.test_it_asks_for_places_far_outside_the_demonstrations"
    ],
    "the driver fails to give an observation more than `failed_reads` times in a row": [
        "test_robot_faults.test_a_camera_the_driver_and_the_operator",
        "test_arm_faults.test_one_failed_read",
        "test_start.test_failed_reads_are_as_many_in_every_command",
        "test_start.test_a_bus_that_fails_every_second_time_is_tolerated_wherever_it_is_read",
    ],
    "the driver did not take a command": [
        "test_robot_faults.test_a_camera_the_driver_and_the_operator"
    ],
    "a tick took too long": ["test_arm_faults.test_a_key_before_the_fault_does_not_resume"],
    "the arm is far outside the demonstrated range, or still moving fast": [
        "test_start.test_a_run_is_refused_for_its_pose_its_light_and_its_pace",
        "test_start.test_an_arm_that_somebody_moves_is_not_started",
    ],
}
"""What stops the arm -> the tests that drive it through the real command."""


def rows_of_the_guide() -> list[str]:
    """The first cell of each row."""
    section = (ROOT / "docs" / "robot.md").read_text().partition("## What stops the arm")[2]
    lines = section.partition("\n## ")[0].splitlines()
    return [line.split("|")[1].strip() for line in lines if line.startswith("|")][2:]


def test_every_row_of_the_guide_has_a_test() -> None:
    assert rows_of_the_guide() == list(TABLE)


@pytest.mark.parametrize("name", sorted({name for names in TABLE.values() for name in names}))
def test_the_test_exists(name: str) -> None:
    module, _, test = name.partition(".")
    assert callable(getattr(importlib.import_module(f"tests.control.campaign.{module}"), test))
