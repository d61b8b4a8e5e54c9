"""The form that adds a node."""

from typing import Any

from django import forms
from django.utils.translation import gettext_lazy as _

from apps.core.errors import InvalidInput


class NodeForm(forms.Form):
    """Where a node is reached, and how it is signed in to the first time."""

    address = forms.CharField(label=_("Address"), max_length=253, help_text=_("Host name or IP address."))
    port = forms.IntegerField(label=_("SSH port"), initial=22)
    ssh_user = forms.CharField(
        label=_("User"), max_length=32, initial="root", help_text=_("Login name on the node; root, or one with sudo.")
    )
    name = forms.CharField(label=_("Name"), max_length=63, help_text=_("Lower-case letters, digits and hyphens."))
    password = forms.CharField(
        label=_("Password, once"), required=False, strip=False,
        widget=forms.PasswordInput(render_value=False, attrs={"autocomplete": "off"}),
        help_text=_(
            "Only when the portal's key is not installed yet. It is sealed, used once to install the key, and wiped."
        ),
    )  # fmt: skip
    expected_fingerprint = forms.CharField(
        label=_("Host key fingerprint"), required=False, max_length=64,
        help_text=_(
            "SHA256:… as read on the node itself. A matching key is trusted at once; empty: you confirm it on the"
            " next page."
        ),
    )  # fmt: skip

    def values(self) -> dict[str, Any]:
        """Returns what `node_add` takes."""
        return {**self.cleaned_data, "password": self.cleaned_data["password"] or None}

    def add_errors(self, error: InvalidInput) -> None:
        """Puts what the service found wrong beside the fields."""
        for name, text in error.errors.items():
            self.add_error(name if name in self.fields else None, text)
        if not error.errors:
            self.add_error(None, error.detail)
