"""What people type in of candidates, checked."""

from __future__ import annotations

import tempfile
from pathlib import Path

from django import forms
from django.core.exceptions import ValidationError
from django.core.files.uploadedfile import UploadedFile

from benchapp.fleet import candidates
from benchapp.fleet.models import Candidate
from benchapp.people.models import User
from workers.bench.tiles.arches import ARCHES


class CandidateForm(forms.Form):
    """A wheel of FlashInfer that is no release."""

    path = forms.FileField(label="Wheel", widget=forms.ClearableFileInput({"accept": ".whl"}), max_length=200)
    base = forms.CharField(
        label="The release it is a patch of",
        max_length=40,
        widget=forms.TextInput({"placeholder": "0.6.3", "autocomplete": "off"}),
    )
    note = forms.CharField(label="What is changed in it", required=False, max_length=300)

    def register(self, user: User) -> tuple[Candidate, bool]:
        """Keep the wheel of a valid form. Raises ValidationError."""
        sent: UploadedFile = self.cleaned_data["path"]
        if (sent.size or 0) > candidates.LIMIT_BYTES:
            raise ValidationError({"path": f"Expected at most {candidates.LIMIT_BYTES:,} bytes."})
        with tempfile.TemporaryDirectory() as folder:
            # the name is the sender's word: it is shown, and no file is called so
            wheel = Path(folder) / "candidate.whl"
            with wheel.open("wb") as out:
                out.writelines(sent.chunks())
            return candidates.register(
                wheel,
                package="flashinfer",
                base=self.cleaned_data["base"],
                note=self.cleaned_data["note"],
                user=user,
                origin=Path(sent.name or "").name,
            )

    def tell(self, error: ValidationError) -> None:
        for field, said in error.message_dict.items():
            self.add_error(field if field in self.fields else None, said)


class SurveyForm(forms.Form):
    arch = forms.ChoiceField(choices=[(arch, arch.upper()) for arch in ARCHES], initial="sm120")
