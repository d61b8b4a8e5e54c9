"""Where the pages of jobs are."""

from django.urls import path

from apps.workloads import views

urlpatterns = [
    path("jobs", views.job_list_page, name="jobs"),
    path("jobs/new", views.job_new_page, name="job_new"),
    path("jobs/<uuid:job_id>", views.job_page, name="job"),
    path("jobs/<uuid:job_id>/live", views.job_live, name="job_live"),
    path("jobs/<uuid:job_id>/cancel", views.job_cancel_act, name="job_cancel"),
    path("jobs/<uuid:job_id>/requeue", views.job_requeue_act, name="job_requeue"),
]
