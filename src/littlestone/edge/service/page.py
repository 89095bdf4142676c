"""The page."""

from fastapi import APIRouter

router = APIRouter()
