"""Where the frame's own pages are."""

from django.urls import path
from django.views.i18n import JavaScriptCatalog

from apps.console import views

urlpatterns = [
    path("", views.home_page, name="home"),
    path("sign-in", views.SignInPage.as_view(), name="sign_in"),
    path("sign-out", views.SignOut.as_view(), name="sign_out"),
    path("switch/tenant", views.tenant_act, name="switch_tenant"),
    path("switch/language", views.language_act, name="switch_language"),
    path("switch/theme", views.theme_act, name="switch_theme"),
    path("words.js", JavaScriptCatalog.as_view(packages=None), name="words"),
]
