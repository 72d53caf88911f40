from django.urls import path

from benchapp.runs import views

app_name = "runs"
urlpatterns = [
    path("", views.index, name="index"),
    path("<int:run_id>/", views.detail, name="detail"),
    path("<int:run_id>/progress", views.progress, name="progress"),
    path("<int:run_id>/attempts/<int:number>.log", views.log, name="log"),
    path("<int:run_id>/cancel", views.cancel, name="cancel"),
    path("<int:run_id>/invalid", views.invalid, name="invalid"),
    path("<int:run_id>/valid", views.valid, name="valid"),
    path("jobs/<int:job_id>/cancel", views.cancel_job, name="cancel_job"),
    path("documents/<int:document_id>.json", views.document, name="document"),
]
