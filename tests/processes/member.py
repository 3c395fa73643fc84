"""A process of a program without TensorFlow, told what to do by its words."""

import os
import signal
import sys
import time

from mtf_models.errors import MtfError
from mtf_models.processes import cluster, current, taking_part
from mtf_models.processes.agreement import check_same


def gather(group):
    print(group.gather("first", group.index * 10), group.gather("second", [group.index]))


def agree(group, text):
    check_same(group, {"config": text, "seed": "0"})


def die(group):
    if group.index == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    group.gather("never")


def freeze(group):
    group.gather("all are here")
    if group.index == 1:
        os.kill(os.getpid(), signal.SIGSTOP)
    time.sleep(60)  # as in a collective operation that does not come to its end


def fail(group):
    if group.index == 1:
        raise MtfError("The disk of this machine is full.")
    group.gather("never")


def fail_together(group):
    def work():
        if group.index == 1:
            raise MtfError("no room")
        return group.index

    group.together("writing", work)


def leave_early(group):
    if group.index == 0:
        group.gather("saving")


def stop(group, asks, ahead):
    """Counts steps, of which each takes all; the process `asks` is told to stop in step 3."""
    step = 0
    while True:
        if group.index == int(ahead):
            group.gather(f"step {step}")
        else:
            time.sleep(0.02)
            group.gather(f"step {step}")
        step += 1
        if step == 3 and group.index == int(asks):
            group.stopping.ask(signal.SIGTERM, group.leads)
        number = group.stopping.after(step)
        if number is not None:
            print("stopped", step, number)
            return


def main(what, *words):
    try:
        with taking_part(cluster.from_environment(os.environ)) as group:
            assert current() is group
            globals()[what](group, *words)
    except MtfError as error:
        print(error)
        return error.exit_status
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
