"""Settings of a real fabric for the remedies of HotNets'22 without time-shifts: a priority for each job
(§4(ii)), and unfair or adaptively unfair DCQCN (§2, §4(i)).

The package prints settings and writes files and scripts; it changes nothing itself.
"""

from hocket.export.classes import Classes, JobClass, job_classes
from hocket.export.nics import NicSettings, Write, nic_settings

__all__ = ["Classes", "JobClass", "NicSettings", "Write", "job_classes", "nic_settings"]
