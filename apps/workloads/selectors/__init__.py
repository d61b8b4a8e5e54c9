"""Reading jobs: lists, one job with its attempts, events, bytes; and what the scheduler and the workers ask."""

from apps.workloads.selectors.jobs import (
    job_clone_spec,
    job_events,
    job_get,
    job_list,
    job_readings,
    job_seqs,
    jobs_on_nodes,
)
from apps.workloads.selectors.streams import stream_chunks, stream_durable_lengths, stream_info, stream_key, stream_read
from apps.workloads.selectors.work import (
    attempt_job,
    live_jobs_of_gpus,
    pending_count,
    pending_jobs,
    removals_due,
)

__all__ = [
    "attempt_job",
    "job_clone_spec",
    "job_events",
    "job_get",
    "job_list",
    "job_readings",
    "job_seqs",
    "jobs_on_nodes",
    "live_jobs_of_gpus",
    "pending_count",
    "pending_jobs",
    "removals_due",
    "stream_chunks",
    "stream_durable_lengths",
    "stream_info",
    "stream_key",
    "stream_read",
]
