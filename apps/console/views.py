"""Pages that belong to no single noun: signing in and out, the start, switches of the frame."""

from typing import Any
from urllib.parse import urlsplit

from django.conf import settings
from django.contrib.auth.views import LoginView, LogoutView
from django.http import HttpRequest, HttpResponse, HttpResponseBase
from django.shortcuts import redirect
from django.urls import reverse
from django.utils.decorators import method_decorator
from django.utils.http import url_has_allowed_host_and_scheme
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_GET, require_POST

from apps.accounts.models import User
from apps.accounts.pages import Visitor, page, tenant_choose
from apps.accounts.requests import actor_of
from apps.accounts.services import signin_record, user_language_set
from apps.console.forms import SignInForm
from apps.core.clock import utc_now

YEAR_S = 365 * 86_400
THEMES = ("light", "dark", "auto")


@method_decorator(never_cache, name="dispatch")
class SignInPage(LoginView):
    """Signs a person in and puts it on record, also when it fails."""

    template_name = "console/sign_in.html"
    authentication_form = SignInForm
    redirect_authenticated_user = True

    def form_valid(self, form: Any) -> HttpResponse:
        """Signs in; the person's language becomes the page's."""
        answer = super().form_valid(form)
        user: User = form.get_user()
        signin_record(user=user, email=user.email, actor=actor_of(self.request), outcome="ok", now=utc_now())
        _keep(answer, settings.LANGUAGE_COOKIE_NAME, user.language)
        return answer

    def form_invalid(self, form: Any) -> HttpResponse:
        """Shows the form again."""
        if form.email:
            signin_record(user=None, email=form.email, actor=actor_of(self.request), outcome="refused", now=utc_now())
        answer = super().form_invalid(form)
        answer.status_code = 422
        return answer


class SignOut(LogoutView):
    """Ends the session."""

    next_page = "sign_in"
    http_method_names = ["post", "options"]


@require_GET
@page
def home_page(request: HttpRequest, visitor: Visitor) -> HttpResponseBase:
    """The start: the jobs of a member, the nodes of an operator without a tenant."""
    return redirect("nodes" if visitor.tenant is None and visitor.is_operator else "jobs")


@require_POST
@page
def tenant_act(request: HttpRequest, visitor: Visitor) -> HttpResponseBase:
    """Switches to another of the visitor's tenants."""
    tenant_choose(request, request.POST.get("tenant", ""))
    return redirect("jobs")


@require_POST
def language_act(request: HttpRequest) -> HttpResponseBase:
    """Switches the language; kept with the person, so that mails speak it too."""
    answer = redirect(_back(request))
    code = request.POST.get("language", "")
    if code in dict(settings.LANGUAGES):
        _keep(answer, settings.LANGUAGE_COOKIE_NAME, code)
        if isinstance(request.user, User):
            user_language_set(user=request.user, language=code)
    return answer


@require_POST
def theme_act(request: HttpRequest) -> HttpResponseBase:
    """Switches between light, dark and what the browser asks for."""
    answer = redirect(_back(request))
    theme = request.POST.get("theme", "")
    if theme in THEMES:
        _keep(answer, "berth_theme", theme)
    return answer


def _keep(answer: HttpResponse, name: str, value: str) -> None:
    answer.set_cookie(name, value, max_age=YEAR_S, samesite="Lax", secure=settings.SESSION_COOKIE_SECURE)


def _back(request: HttpRequest) -> str:
    """The page that the switch was on; only one of our own."""
    url = request.POST.get("next", "") or request.headers.get("Referer", "")
    if url_has_allowed_host_and_scheme(url, allowed_hosts={request.get_host()}, require_https=request.is_secure()):
        parts = urlsplit(url)
        return parts._replace(scheme="", netloc="").geturl() or "/"
    return reverse("home")
