"""Routes of jobs."""

from django.urls import path

from apps.workloads.api import jobs, streams

api_urlpatterns = [
    path("jobs", jobs.JobsView.as_view(), name="jobs"),
    path("jobs/<uuid:job_id>", jobs.OneJobView.as_view(), name="job"),
    path("jobs/<uuid:job_id>/cancel", jobs.CancelView.as_view(), name="job-cancel"),
    path("jobs/<uuid:job_id>/requeue", jobs.RequeueView.as_view(), name="job-requeue"),
    path("jobs/<uuid:job_id>/clone", jobs.CloneView.as_view(), name="job-clone"),
    path("jobs/<uuid:job_id>/events", jobs.EventsView.as_view(), name="job-events"),
    path("jobs/<uuid:job_id>/gpu-readings", jobs.ReadingsView.as_view(), name="job-gpu-readings"),
    path("jobs/<uuid:job_id>/usage", jobs.UsageView.as_view(), name="job-usage"),
    path("jobs/<uuid:job_id>/log", streams.LogView.as_view(), name="job-log"),
    path("jobs/<uuid:job_id>/log/download", streams.LogDownloadView.as_view(), name="job-log-download"),
    path("jobs/<uuid:job_id>/outputs", streams.OutputsView.as_view(), name="job-outputs"),
]
