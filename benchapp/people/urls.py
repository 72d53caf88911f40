from django.urls import path

from benchapp.people import views

app_name = "people"
urlpatterns = [
    path("login/", views.Login.as_view(), name="login"),
    path("logout/", views.sign_out, name="logout"),
    path("setup/<str:secret>/", views.setup, name="setup"),
    path("people/", views.people, name="index"),
    path("people/<int:pk>/role/", views.set_role, name="role"),
    path("people/<int:pk>/active/", views.set_active, name="active"),
    path("people/<int:pk>/link/", views.make_link, name="link"),
    path("people/tokens/", views.tokens, name="tokens"),
    path("people/tokens/<int:pk>/revoke/", views.revoke_token, name="revoke"),
    path("people/audit/", views.audit, name="audit"),
]
